"""The subcommand `plan`: which specs apply to given versions, and what that rests on."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from exportcompat._drift import describe, newest_surveyed, proved_on
from exportcompat.patches import SUPPORTED, default_registry
from exportcompat.registry import (
    PACKAGES,
    Decision,
    Environment,
    Registry,
    mismatches,
    parse_range,
    plan,
    text_table,
)

from ._options import Commands, add_json, add_registry, add_selection, registry_of, to_json

_MEANING = {
    "yes": "proved on this release",
    "same source": "the source is that of a release on which it was proved",
    "other source": "the source is none that it was proved on; nearest release",
    "on": "there is no source to go by; the nearest releases on which it was proved",
    "unknown": "nobody has looked at this release yet: `exportcompat drift` does",
    "no": "no release is noted, as for what is found by a word in any model; `show ID` has the proofs",
}
"""What the column PROVED says, by its first words."""


@dataclass(frozen=True)
class _Rows:
    """The decisions that are shown, with what is said around them."""

    decisions: Sequence[Decision]
    rests: Sequence[str]
    notes: Sequence[str]


def add_plan(commands: Commands) -> None:
    """Add the parser of `plan`."""
    text = "say which specs apply to given versions, and what that rests on"
    parser = commands.add_parser("plan", help=text, description=text, allow_abbrev=False)
    for package in PACKAGES:
        parser.add_argument(
            f"--{package}", metavar="VERSION", help=f"version of {package}, or none; default: what is installed"
        )
    parser.add_argument(
        "--model", metavar="DIR_OR_TYPE", help="those that concern a model: a folder, a model type, a class, a hub name"
    )
    parser.add_argument("--all", action="store_true", help="also those that do not apply, and why")
    add_selection(parser)
    add_registry(parser)
    add_json(parser)
    parser.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the plan.

    Raises:
        SpecError: a version is malformed.
        UnknownSpecError: an id is unknown.
        NotApplicableError: an included id is not for the versions.
        ExportCompatError: no model is known by the name.
        RegistryError: a registry that is named cannot be had.
    """
    given = {package: getattr(arguments, package.replace("-", "_")) for package in PACKAGES}
    environment = Environment({name: _version(text) for name, text in given.items() if text is not None})
    registry = registry_of(arguments, default_registry())
    decisions = plan(registry, environment, include=arguments.include, exclude=arguments.exclude)
    # A plan looks at no package that no spec needs; these are shown in any case.
    versions = {name: _text(environment[name]) for name in (*PACKAGES, *environment)}
    mismatched = list(mismatches(registry.companions, environment))
    warnings = list(_unsupported(registry, environment))
    found = _rows(decisions, arguments.model, registry, environment)
    if arguments.json:
        rows = [_data(item, rests) for item, rests in zip(found.decisions, found.rests, strict=True)]
        yield to_json({"versions": versions, "mismatched": mismatched, "warnings": warnings, "specs": rows})
        return
    yield ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
    yield from (f"warning: {text}" for text in (*mismatched, *warnings))
    yield from found.notes
    yield ""
    yield from _lines(found, everything=arguments.all)


def _rows(decisions: Sequence[Decision], name: str | None, registry: Registry, environment: Environment) -> _Rows:
    notes = []
    if name:
        # It reads sources, which every other plan does without.
        from ._choice import ForModel

        model = ForModel(name, registry, environment)
        decisions = [item for item in decisions if model.concerns(item.spec)]
        notes = [*filter(None, [model.named.guess]), f"what concerns {', '.join(model.named.folders)}:"]
    rests = [describe(item.spec, item.spec.fingerprints, environment) if item.applies else "" for item in decisions]
    return _Rows(decisions, rests, notes)


def _lines(found: _Rows, *, everything: bool) -> Iterator[str]:
    pairs = list(zip(found.decisions, found.rests, strict=True))
    shown = pairs if everything else [(item, rests) for item, rests in pairs if item.applies]
    if everything:
        head = ("ID", "APPLIES", "PROVED", "REASON")
        rows = [(item.spec.id, "yes" if item.applies else "no", rests, item.reason) for item, rests in shown]
        yield from text_table([head, *rows])
    elif shown:
        yield from text_table([("ID", "PROVED", "WHAT GOES WRONG WITHOUT IT"), *(_short(*pair) for pair in shown)])
    yield from ([""] if shown else [])
    yield from _summary(found, everything=everything)


def _short(item: Decision, rests: str) -> tuple[str, str, str]:
    return item.spec.id, rests, item.spec.reason


def _summary(found: _Rows, *, everything: bool) -> Iterator[str]:
    """Yield how many apply, what the words of the column mean, and how to see the rest."""
    count = sum(item.applies for item in found.decisions)
    rest = len({item.spec.id for item in found.decisions} - {item.spec.id for item in found.decisions if item.applies})
    hint = "" if everything or not rest else " (--all lists them, and why)"
    yield f"{count} {'spec applies' if count == 1 else 'specs apply'}, {rest} {'does' if rest == 1 else 'do'} not{hint}"
    words = Counter(_word(rests) for rests in found.rests if rests)
    for word, meaning in _MEANING.items():
        if words[word]:
            yield f"  {words[word]} PROVED {word!r}: {meaning}"


def _word(rests: str) -> str:
    return next(word for word in _MEANING if rests == word or rests.startswith(f"{word} "))


def _unsupported(registry: Registry, environment: Environment) -> Iterator[str]:
    """Yield a sentence for each version that is older than what is supported, or newer than what is known."""
    for text in SUPPORTED:
        wanted = parse_range(text)
        version = environment[wanted.package]
        newest = newest_surveyed(registry, wanted.package)
        if version is not None and not wanted.admits(version):
            yield f"{wanted.package} {version} is not supported; {text} is"
        elif version is not None and newest and Version(version.base_version) > Version(newest):
            yield (
                f"{wanted.package} {version} is newer than {newest}, the last one that was looked at: what applies is "
                f"a guess; `exportcompat drift --{wanted.package} {version}` says what has changed"
            )


def _version(text: str) -> str | None:
    return None if text.strip().lower() == "none" else text


def _text(version: object) -> str | None:
    return None if version is None else str(version)


def _data(decision: Decision, rests: str) -> dict[str, Any]:
    spec = decision.spec
    return {
        "id": spec.id,
        "applies": decision.applies,
        "reason": decision.reason,
        "requires": list(spec.requires),
        "targets": list(spec.targets),
        "kind": spec.kind,
        "origin": spec.origin,
        "proved_on": proved_on(spec, spec.fingerprints),
        "rests_on": rests,
    }
