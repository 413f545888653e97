"""The results of a model type on one transformers and one torch, and how they are as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

WORKS = ("native", "patched")
BROKEN = ("wrong", "fails")
OUTCOMES = (*BROKEN, *reversed(WORKS))
"""What was tested, the worst first."""
NOT_TESTED = ("uninstallable", "unsupported", "absent")
"""Nothing was found out, the most telling first."""
UNKNOWN = "unknown"
DYNAMO = "dynamo"
"""`torch.onnx.export(dynamo=True)`."""

_TABLES = {
    "environment": "environments",
    "patches": "patch_sets",
    "problem": "problems",
    "plain_problem": "problems",
}
"""Where what a result has a number for is in its file."""


@dataclass(frozen=True)
class Cell:
    """The results of a model type on one pair of releases.

    Attributes:
        transformers: the release.
        torch: the release.
        results: a record for each case.
    """

    transformers: str
    torch: str
    results: tuple[Mapping[str, Any], ...]

    @property
    def outcome(self) -> str:
        """The worst of those that were tested, or why none was."""
        found = {item["outcome"] for item in self.results}
        return next((name for name in (*OUTCOMES, *NOT_TESTED) if name in found), UNKNOWN)

    @property
    def is_tested(self) -> bool:
        """Say whether something was found out."""
        return self.outcome in OUTCOMES

    @property
    def does_work(self) -> bool:
        """Say whether all that was tested is right."""
        return self.outcome in WORKS

    @property
    def is_current(self) -> bool:
        """Say whether all was found with the code of the release that made the data."""
        return all(item["current"] for item in self.results)

    @property
    def evidence(self) -> str:
        """Say how its results were found: `run`, `same program` if one was carried, `older code` if one was."""
        if not self.is_current:
            return "older code"
        return "same program" if any("carried" in item for item in self.results) else "run"

    @property
    def versions(self) -> dict[str, str]:
        """The two releases by package."""
        return {"transformers": self.transformers, "torch": self.torch}

    @property
    def order(self) -> tuple[Version, Version]:
        """The place among other pairs."""
        return Version(self.transformers), Version(self.torch)

    @property
    def patches(self) -> tuple[str, ...]:
        """The ids of the specs that were called, in the order in which they apply."""
        return tuple(dict.fromkeys(name for item in self.results for name in item.get("patches", ())))


def cells_of(
    content: Mapping[str, Any], *, task: str | None = None, attention: str | None = None, route: str = DYNAMO
) -> list[Cell]:
    """Return the results in the file of a model type by pairs of releases, newest first.

    Args:
        content: the file.
        task: only results for it.
        attention: only results with it: `default` or `eager`.
        route: only results of this way to export: `dynamo`, `exportcompat.export`, `torchscript`
            or `torch.export`.
    """
    wanted = {"task": task, "attention": attention, "route": route}
    names = {
        name
        for name, case in content["cases"].items()
        if all(value is None or case[key] == value for key, value in wanted.items())
    }
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in content["results"]:
        if item["case"] in names:
            found.setdefault((item["transformers"], item["torch"]), []).append(_spelled(item, content))
    return sorted((Cell(*key, tuple(rows)) for key, rows in found.items()), key=lambda cell: cell.order, reverse=True)


def _spelled(item: Mapping[str, Any], content: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
    """Return a result with what it shares with others, for which the file has numbers."""
    tables = {
        "environment": "environments",
        "patches": "patch_sets",
        "problem": "problems",
        "plain_problem": "problems",
    }
    return {name: content[tables[name]][value] if name in tables else value for name, value in item.items()}
