"""The subcommands `plan`, `list` and `show`: what the specs are, and which of them apply."""

import argparse
from collections.abc import Iterator
from typing import Any

from exportcompat._drift import describe, proved_on
from exportcompat._table import table
from exportcompat.patches import default_registry
from exportcompat.registry import Decision, Environment, PatchingSpec, plan

from ._options import Commands, add_json, add_selection, to_json

PACKAGES = ("torch", "transformers")
"""The packages whose versions can be given on the command line."""


def add_plan(commands: Commands) -> None:
    """Add the parser of `plan`."""
    text = "say for each spec whether it applies, and why"
    parser = commands.add_parser("plan", help=text, description=text, allow_abbrev=False)
    for package in PACKAGES:
        parser.add_argument(
            f"--{package}", metavar="VERSION", help=f"version of {package}, or none; default: what is installed"
        )
    add_selection(parser)
    add_json(parser)
    parser.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the plan.

    Raises:
        SpecError: a version is malformed.
        UnknownSpecError: an id is unknown.
        NotApplicableError: an included id is not for the versions.
    """
    given = {package: getattr(arguments, package) for package in PACKAGES}
    environment = Environment({name: _version(text) for name, text in given.items() if text is not None})
    registry = default_registry()
    decisions = plan(registry, environment, include=arguments.include, exclude=arguments.exclude)
    # A plan looks at no package that no spec needs; these two are shown in any case.
    versions = {name: _text(environment[name]) for name in (*PACKAGES, *environment)}
    if arguments.json:
        rows = [
            {
                **_decision_data(item),
                "proved_on": proved_on(item.spec, registry.fingerprints),
                "rests_on": describe(item.spec, registry.fingerprints, environment) if item.applies else "",
            }
            for item in decisions
        ]
        yield to_json({"versions": versions, "specs": rows})
        return
    yield ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
    yield ""
    lines = [
        (item.spec.id, "yes", describe(item.spec, registry.fingerprints, environment), item.reason)
        if item.applies
        else (item.spec.id, "no", "", item.reason)
        for item in decisions
    ]
    yield from table([("ID", "APPLIES", "PROVED", "REASON"), *lines])


def _version(text: str) -> str | None:
    return None if text.strip().lower() == "none" else text


def _text(version: object) -> str | None:
    return None if version is None else str(version)


def _decision_data(decision: Decision) -> dict[str, Any]:
    spec = decision.spec
    return {
        "id": spec.id,
        "applies": decision.applies,
        "reason": decision.reason,
        "requires": list(spec.requires),
        "targets": list(spec.targets),
        "kind": spec.kind,
    }


def add_list(commands: Commands) -> None:
    """Add the parser of `list`."""
    text = "list the specs with their version ranges"
    parser = commands.add_parser("list", help=text, description=text, allow_abbrev=False)
    add_json(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield every id with the ranges of its variants."""
    registry = default_registry()
    entries = [_list_data(spec_id, registry.variants(spec_id)) for spec_id in registry.ids()]
    if arguments.json:
        yield to_json({"specs": entries})
        return
    for entry in entries:
        yield f"{entry['id']} ({entry['proofs']} {'proof' if entry['proofs'] == 1 else 'proofs'})"
        yield from (f"    {', '.join(requires)}" for requires in entry["ranges"])
        yield f"    {entry['reason']}"


def _list_data(spec_id: str, variants: list[PatchingSpec]) -> dict[str, Any]:
    return {
        "id": spec_id,
        "ranges": [list(spec.requires) for spec in variants],
        "reason": " / ".join(dict.fromkeys(spec.reason for spec in variants)),
        "proofs": len({proof for spec in variants for proof in spec.proofs}),
    }


def add_show(commands: Commands) -> None:
    """Add the parser of `show`."""
    text = "show one spec, and how its replacements differ from what is installed"
    parser = commands.add_parser("show", help=text, description=text, allow_abbrev=False)
    parser.add_argument("id", metavar="ID", help="id of the spec, as `exportcompat list` has it")
    parser.set_defaults(run=_show)


def _show(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield everything about one spec.

    Raises:
        UnknownSpecError: no spec has the id.
    """
    # difflib and inspect would make every other command slower.
    from ._show import show

    return show(arguments.id, default_registry(), Environment())
