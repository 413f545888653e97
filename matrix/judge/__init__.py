"""The judge: files that others make of the same models, compared with eager by `exportcompat verify`, as ours are."""

from ._driver import run_judge
from ._makers import MAKERS, Maker
from ._models import MODELS, JudgedModel
from ._page import write_page

__all__ = ["MAKERS", "MODELS", "JudgedModel", "Maker", "run_judge", "write_page"]
