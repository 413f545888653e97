"""A badge for each model type: what shields.io reads as an endpoint."""

from collections.abc import Mapping, Sequence
from typing import Any

from exportcompat._dataset import WORKS, Cell


def badge(model_type: str, cells: Sequence[Cell]) -> Mapping[str, Any]:
    """Return the badge of a model type: on how many pairs of transformers and torch it works, of those that were run.

    Args:
        model_type: the type.
        cells: its results on each pair.
    """
    tested = [cell for cell in cells if cell.is_tested]
    works = sum(cell.outcome in WORKS for cell in tested)
    has_wrong = any(cell.outcome == "wrong" for cell in tested)
    return {
        "schemaVersion": 1,
        "label": f"{model_type} export",
        "message": f"{works} of {len(tested)} version pairs" if tested else "not run",
        "color": _colour(works, len(tested), has_wrong=has_wrong),
    }


def _colour(works: int, count: int, *, has_wrong: bool) -> str:
    if not count:
        return "lightgrey"
    if has_wrong:
        return "red"
    return "brightgreen" if works == count else "yellow" if works else "orange"
