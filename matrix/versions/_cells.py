"""The cells: pairs of transformers and torch, which of them there are, and which of them are chosen."""

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.version import Version

from exportcompat.matrix.cases import CASES, Case
from exportcompat.registry import COMPANIONS, ExportCompatError

from ._range_ends import proofs_at_ends
from ._version_axes import last_patches, policy, release, releases, season, seasons

ANYWHERE = "tiny_gpt"
"""A case that needs no model of transformers."""


@dataclass(frozen=True)
class Cell:
    """One transformers with one torch; in a season beside the other packages of that time, or else the newest."""

    transformers: str
    torch: str
    season: str = ""

    def __str__(self) -> str:
        named = f", season {self.season}" if self.season else ""
        return f"transformers {self.transformers}, torch {self.torch}{named}"

    @property
    def pins(self) -> dict[str, str]:
        """The versions that its environment is made with, by package."""
        found = season(self.season) if self.season else {}
        companions = {name: found[name] for name in COMPANIONS if name in found}
        return {"transformers": self.transformers, "torch": self.torch, **companions}

    @property
    def order(self) -> tuple[Version, Version]:
        """By torch, then by transformers: an environment of one torch is cheap beside another with the same."""
        return Version(self.torch), Version(self.transformers)


def default_cells() -> list[Cell]:
    """Return the telling cells."""
    return _sorted(_cell(*pair) for pair in policy()["default"]["cells"])


def all_cells() -> list[Cell]:
    """Return every cell that `axes.toml` and the ends of the specs' ranges ask for."""
    return _sorted([*_grid(), *_whole(), *(Cell(*pair) for pair in proofs_at_ends())])


def season_cells(name: str) -> list[Cell]:
    """Return the cells of a season, or of every season for `all`.

    Raises:
        ExportCompatError: there is no such season.
    """
    rows = seasons().values() if name == "all" else [season(name)]
    return _sorted(Cell(text, row["torch"], row["name"]) for row in rows for text in row["transformers"])


def cases_of(cell: Cell) -> list[Case]:
    """Return the cases that are run in a cell: all, those for every cell, or those alone that prove an end there."""
    if cell in _whole():
        return list(CASES.values())
    if cell.season:
        return [case for case in CASES.values() if case.name in _everywhere()]
    proved = proofs_at_ends().get((cell.transformers, cell.torch), {})
    # The models of all proofs may be younger than a release; one case can be checked anywhere.
    names = {*(_everywhere() if cell in _grid() else [ANYWHERE]), *proved}
    return [case for case in CASES.values() if case.name in names]


def _everywhere() -> list[str]:
    return [case.name for case in CASES.values() if case.everywhere]


@lru_cache(maxsize=1)
def _grid() -> frozenset[Cell]:
    rules = policy()["cells"]
    some, one = [*last_patches("transformers"), *rules["changed"]], rules["torch"]
    cells = [_cell(text, one) for text in some]
    cells += [_cell(text, torch) for text in rules["transformers"] for torch in last_patches("torch")]
    return frozenset([*cells, *(_cell(*pair) for pair in rules["season"])])


@lru_cache(maxsize=1)
def _whole() -> frozenset[Cell]:
    return frozenset(_cell(*pair) for pair in policy()["cells"]["whole"])


def choose(cells: Sequence[Cell], transformers: str | None, torch: str | None) -> list[Cell]:
    """Return the cells that match; two exact releases are a cell, whether it is among them or not.

    Args:
        cells: those to choose from.
        transformers: a release, the start of one (`4.5` is `4.5.*`) or a shell pattern; None for all.
        torch: the same.

    Raises:
        ExportCompatError: none matches.
    """
    wanted = {"transformers": transformers, "torch": torch}
    found = [cell for cell in cells if all(_matches(getattr(cell, name), text) for name, text in wanted.items())]
    if not found and all(text in releases(name) for name, text in wanted.items()):
        found = [Cell(str(transformers), str(torch))]
    if not found:
        said = ", ".join(f"{name} {text}" for name, text in wanted.items() if text)
        raise ExportCompatError(f"no cell has {said}; `--list --all` shows those that there are")
    return found


def shard(cells: Sequence[Cell], text: str | None) -> list[Cell]:
    """Return a part of the cells, such as the second of five, `2/5`; neighbours share their torch.

    Raises:
        ExportCompatError: `text` has another form.
    """
    if text is None:
        return list(cells)
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise ExportCompatError(f"{text!r} is no shard; write the number of the part and of all parts, such as 2/5")
    bounds = [len(cells) * number // int(count) for number in (int(index) - 1, int(index))]
    return list(cells[bounds[0] : bounds[1]])


def _matches(found: str, wanted: str | None) -> bool:
    return wanted is None or fnmatch.fnmatchcase(found, wanted) or found.startswith(f"{wanted}.")


def _cell(transformers: str, torch: str) -> Cell:
    return Cell(release("transformers", transformers), release("torch", torch))


def _sorted(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(set(cells), key=lambda cell: cell.order)
