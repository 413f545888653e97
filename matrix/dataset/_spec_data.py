"""The specs as plain data, each with what is known of the releases that it is for."""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from packaging.version import Version

from exportcompat._drift import describe
from exportcompat.matrix.versions import releases
from exportcompat.patches import area_of
from exportcompat.registry import Environment, PatchingSpec, Registry

from ._proof_runs import Record, is_for

_LISTED = ("torch", "transformers")
"""Packages whose releases are listed."""

_EVIDENCE = {"yes": "proved", "same": "same source", "other": "other source", "on": "no source", "no": "not proved"}
"""What `describe` says, by its first word; everything else is unknown."""


def spec_data(registry: Registry, runs: Mapping[str, list[Record]]) -> list[Record]:
    """Return a record for each spec, in the order in which they apply.

    `evidence` has spans of releases of the package that the spec writes to. `proved`: run there, without it and with
    it. `same source`: what it replaces is, by content, as where it was proved. `other source`: it is not. `no source`:
    there is none to compare. `unknown`: nobody has looked.

    Args:
        registry: the specs.
        runs: see `runs_without`; they are proofs beside those of the lock file.
    """
    return [_record(registry, spec, runs.get(spec.id, [])) for spec in registry]


def _record(registry: Registry, spec: PatchingSpec, runs: list[Record]) -> Record:
    lists = {name: list(getattr(spec, name)) for name in ("requires", "targets", "upstream", "proofs")}
    texts = {name: getattr(spec, name) for name in ("id", "kind", "reason")}
    package = spec.places[0].package
    proved = {run[package] for run in runs if package in run and is_for(spec, run)}
    evidence = list(_spans(registry, spec, package, proved))
    return {**texts, "area": area_of(spec) or "", "package": package, **lists, "evidence": evidence}


def _spans(registry: Registry, spec: PatchingSpec, package: str, proved: Collection[str]) -> Iterator[Record]:
    """Yield the spans of releases of which the same is known, oldest first."""
    known = [
        (text, "proved" if text in proved else _evidence(registry, spec, package, text))
        for text in admitted(spec, package)
    ]
    for evidence, group in groupby(known, key=lambda item: item[1]):
        names = [text for text, _ in group]
        yield {"first": names[0], "last": names[-1], "evidence": evidence}


def _evidence(registry: Registry, spec: PatchingSpec, package: str, release: str) -> str:
    said = describe(spec, registry.fingerprints, Environment({package: release}))
    return _EVIDENCE.get(said.partition(" ")[0], "unknown")


def admitted(spec: PatchingSpec, package: str) -> list[str]:
    """Return the supported releases of a package that a spec is for, oldest first."""
    ranges = [item for item in spec.ranges if item.package == package]
    listed = releases(package) if package in _LISTED else []
    return [text for text in listed if all(item.admits(Version(text)) for item in ranges)]
