"""Does a model export on given versions? Answered from results that were run, and never from others alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from exportcompat.registry import Environment, ExportCompatError

from ._cells import DYNAMO, UNKNOWN, WORKS, Cell, cells_of
from ._files import Dataset, dataset
from ._spec_evidence import spec_evidence

_NEAR = 2
"""Pairs that are named on each side of one without a result."""


@dataclass(frozen=True)
class Compatibility:
    """What is known of a model type on one transformers with one torch.

    Attributes:
        model_type: the type, as its folder in transformers is called.
        transformers: the release that the answer is for.
        torch: the release that the answer is for.
        outcome: the worst of all results there: `wrong` (a file that is not right), `fails` (no graph), `patched`
            (works with patches only), `native` (works without); or why nothing was tested: `absent` (transformers has
            no such model), `unsupported` (transformers itself cannot run it), `uninstallable`, `unknown` (nobody has
            run it).
        evidence: `run`; `same program`, if a result was not run there, but has the captured program and the answers of
            eager of another transformers, which the result names (`carried`); `older code`, if a result was found with
            older code of exportcompat than that which made the data; or `none`.
        results: a record for each case, as the schema of the data describes it.
        patches: the specs that were called there, by id, or where nothing was run those of the nearest pair: what each
            rests on there, `proved`, `same source` (by content, as where it was proved), `unknown` and so on.
        nearest: where nothing was run, the nearest pairs of releases that were, each as a `Compatibility`.
    """

    model_type: str
    transformers: str
    torch: str
    outcome: str
    evidence: str
    results: tuple[Any, ...] = ()
    patches: Mapping[str, str] = field(default_factory=dict)
    nearest: tuple["Compatibility", ...] = ()

    @property
    def does_work(self) -> bool:
        """Say whether it is right, run there or with the program of a release that was run: `native` or `patched`."""
        return self.outcome in WORKS

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `exportcompat works --json` prints it."""
        names = ("model_type", "transformers", "torch", "outcome", "evidence")
        return {
            **{name: getattr(self, name) for name in names},
            "patches": dict(self.patches),
            "results": [dict(item) for item in self.results],
            "nearest": [item.to_dict() for item in self.nearest],
        }


def works(
    model_type: str,
    *,
    transformers: str | None = None,
    torch: str | None = None,
    task: str | None = None,
    attention: str | None = None,
    route: str = DYNAMO,
) -> Compatibility:
    """Say whether a model exports, and is right, on given versions; neither has to be installed.

    Args:
        model_type: as in a `config.json`, such as `"jamba"`.
        transformers: a release; the start of one, such as `"4.54"`, is the newest of these that was run. Default: what
            is installed.
        torch: the same.
        task: only results for it, such as `"text-generation"`.
        attention: only results with it: `"default"` or `"eager"`.
        route: the way to export: `"dynamo"` (`torch.onnx.export(dynamo=True)`), `"exportcompat.export"` or
            `"torchscript"` or `"torch.export"` (saved and loaded).

    Raises:
        MissingExtraError: `exportcompat-data` is not installed.
        ExportCompatError: nothing is known of such a model, task, attention or route at all (similar names are named),
            or no version was given and none is installed.
        SpecError: a version is malformed.
    """
    source = dataset()
    cells = find_cells(source, model_type, task=task, attention=attention, route=route)
    name = source.find_type(model_type)
    wanted = (_wanted("transformers", transformers), _wanted("torch", torch))
    found = [cell for cell in cells if _begins(cell.transformers, wanted[0]) and _begins(cell.torch, wanted[1])]
    if found:
        # They are sorted: of several the newest.
        return _compatibility(name, found[0], source)
    near = tuple(_compatibility(name, cell, source) for cell in _nearest(cells, *wanted))
    versions = dict(zip(("transformers", "torch"), wanted, strict=True))
    patches = spec_evidence(source.specs, near[0].patches if near else (), versions)
    return Compatibility(name, *wanted, outcome=UNKNOWN, evidence="none", patches=patches, nearest=near)


def find_cells(
    source: Dataset, model_type: str, *, task: str | None = None, attention: str | None = None, route: str = DYNAMO
) -> list[Cell]:
    """Return the results of a model type by pairs of releases, newest first; see `works`.

    Raises:
        ExportCompatError: there are none.
    """
    content = source.results(source.find_type(model_type))
    cells = cells_of(content, task=task, attention=attention, route=route)
    if not cells:
        known = {tuple(case[key] for key in ("task", "attention", "route")) for case in content["cases"].values()}
        there = "; ".join(f"task {t}, attention {a}, route {r}" for t, a, r in sorted(known))
        raise ExportCompatError(f"there are no such results of {content['model_type']}; there are: {there}")
    return cells


def _compatibility(model_type: str, cell: Cell, source: Dataset) -> Compatibility:
    """Return what a pair of releases says."""
    return Compatibility(
        model_type,
        cell.transformers,
        cell.torch,
        outcome=cell.outcome,
        evidence=cell.evidence,
        results=cell.results,
        patches=spec_evidence(source.specs, cell.patches, cell.versions),
    )


def _wanted(package: str, given: str | None) -> str:
    """Return the release that is asked for, or what is installed."""
    version = Environment({package: given} if given else None)[package]
    if version is None:
        raise ExportCompatError(f"say which {package}, which is not installed: {package}=... or --{package} VERSION")
    return version.base_version


def _begins(release: str, wanted: str) -> bool:
    """Say whether a release is the one that is wanted, or a patch release of a wanted minor one, such as `2.13`."""
    return Version(release) == Version(wanted) or Version(release).release[:2] == Version(wanted).release


def _nearest(cells: Sequence[Cell], transformers: str, torch: str) -> Iterator[Cell]:
    """Yield the nearest tested pairs: with the same torch before and after, or else with the nearest torch."""
    tested = [cell for cell in cells if cell.is_tested]
    same = [cell for cell in tested if _begins(cell.torch, torch)] or [
        cell for cell in tested if _begins(cell.transformers, transformers)
    ]
    wanted = (Version(transformers), Version(torch))
    pool = same or tested
    after = [cell for cell in reversed(pool) if cell.order > wanted][: _NEAR - 1]
    before = [cell for cell in pool if cell.order < wanted][: _NEAR - len(after)]
    yield from sorted((*before, *after), key=lambda cell: cell.order, reverse=True)
