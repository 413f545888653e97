"""Which models a case is of, told by the code that it has loaded."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from exportcompat._model_names import folder_of


def case_folders(rows: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, set[str]]:
    """Return the folders of `transformers.models` whose code each case has loaded, in some result.

    Args:
        rows: the rows of each cell, by case.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for cell in rows:
        for case, row in cell.items():
            found[case] |= {folder_of(module) for module in row.get("modules", ())} - {"", "auto"}
    return dict(found)
