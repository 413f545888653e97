"""Lanes: ways to export and to run the result, beside ONNX, with the telling cases without and with patches."""

from ._catalogue import LANES, find_lane
from ._driver import run_lanes
from ._lane import Lane
from ._page import write_page

__all__ = ["LANES", "Lane", "find_lane", "run_lanes", "write_page"]
