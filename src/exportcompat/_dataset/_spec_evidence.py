"""What is known of the specs on given versions, from `specs.json`."""

from collections.abc import Iterable, Mapping
from typing import Any

from packaging.version import Version

from exportcompat.registry import parse_range

NOT_APPLIED = "not for these versions"


def spec_evidence(
    specs: Iterable[Mapping[str, Any]], ids: Iterable[str], versions: Mapping[str, str]
) -> dict[str, str]:
    """Return what each of some specs rests on, by its id.

    Args:
        specs: the records of `specs.json`.
        ids: those that are asked for.
        versions: releases by package; a package that is not named bars no spec.

    Returns:
        `proved`, `same source` (by content), `other source`, `no source`, `not proved`, `unknown`, or that it is not
        for these versions.
    """
    found = dict.fromkeys(ids, NOT_APPLIED)
    for spec in specs:
        if spec["id"] in found and admits(spec["requires"], versions):
            found[spec["id"]] = _at(spec["evidence"], versions.get(spec["package"]))
    return found


def admits(requires: Iterable[str], versions: Mapping[str, str]) -> bool:
    """Say whether requirement strings all admit the versions; a package that is not named is no obstacle."""
    ranges = [parse_range(text) for text in requires]
    return all(item.admits(Version(versions[item.package])) for item in ranges if item.package in versions)


def _at(spans: Iterable[Mapping[str, str]], release: str | None) -> str:
    """Return what a span says of a release; one that is in none has not been looked at."""
    if release is None:
        return "unknown"
    for span in spans:
        if Version(span["first"]) <= Version(release) <= Version(span["last"]):
            return span["evidence"]
    return "unknown"
