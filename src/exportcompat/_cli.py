"""The command `exportcompat`: says what the specs are and which of them apply, exports a model, verifies a file.

A subcommand is two functions: one adds its parser and names the other as `run`, which takes the parsed arguments and
yields lines of text. The first is then listed in `COMMANDS`.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from exportcompat.patches import default_registry
from exportcompat.registry import PACKAGES, Decision, Environment, ExportCompatError, PatchingSpec, mismatches, plan

from ._commands import AlarmError, MismatchError, add_drift, add_export, add_verify
from ._proved import describe, proved_on
from ._table import table
from ._version import __version__

_MATRIX = "matrix"

Commands = Any
"""What `add_subparsers` returns; its class is private to argparse."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    It is 0, or 2 where the input cannot be used, or 1 for a file that is not right, and for a closed pipe.

    Args:
        argv: the arguments after the command's name; None means those of this process.

    Raises:
        SystemExit: argparse ends the program itself for `--help`, `--version` (0) and for wrong usage (2).
    """
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == [_MATRIX]:
        from exportcompat.matrix.__main__ import main as matrix

        return matrix(argv[1:], f"exportcompat {_MATRIX}")
    arguments = _parser().parse_args(argv)
    try:
        _write(arguments.run(arguments))
    except ExportCompatError as error:
        sys.stderr.write(f"exportcompat: error: {error}\n")
        return 1 if isinstance(error, (MismatchError, AlarmError)) else 2
    except BrokenPipeError:
        _close_stdout()
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="exportcompat",
        description="Patches that make torch.export of Hugging Face models work, and exports that are right.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"exportcompat {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    return parser


def _add_plan(commands: Commands) -> None:
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
    given = {package: getattr(arguments, package.replace("-", "_")) for package in PACKAGES}
    environment = Environment({name: _version(text) for name, text in given.items() if text is not None})
    registry = default_registry()
    decisions = plan(registry, environment, include=arguments.include, exclude=arguments.exclude)
    # A plan looks at no package that no spec needs; these are shown in any case.
    versions = {name: _text(environment[name]) for name in (*PACKAGES, *environment)}
    mismatched = list(mismatches(registry.companions, environment))
    if arguments.json:
        rows = [
            {
                **_decision_data(item),
                "proved_on": proved_on(item.spec, registry.fingerprints),
                "rests_on": describe(item.spec, registry.fingerprints, environment) if item.applies else "",
            }
            for item in decisions
        ]
        yield _json({"versions": versions, "mismatched": mismatched, "specs": rows})
        return
    yield ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
    yield from mismatched
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


def _add_list(commands: Commands) -> None:
    text = "list the specs with their version ranges"
    parser = commands.add_parser("list", help=text, description=text, allow_abbrev=False)
    add_json(parser)
    parser.set_defaults(run=_list)


def _list(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield every id with the ranges of its variants."""
    registry = default_registry()
    entries = [_list_data(spec_id, registry.variants(spec_id)) for spec_id in registry.ids()]
    if arguments.json:
        yield _json({"specs": entries})
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


def _add_show(commands: Commands) -> None:
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


def _add_export(commands: Commands) -> None:
    parser = add_export(commands)
    add_selection(parser)
    add_json(parser)


def _add_verify(commands: Commands) -> None:
    add_json(add_verify(commands))


def _add_drift(commands: Commands) -> None:
    parser = add_drift(commands)
    add_json(parser)
    parser.set_defaults(run=_drift)


def _drift(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what became of every target in a release.

    Raises:
        AlarmError: something does not fit any more.
        ExportCompatError: the release cannot be read.
    """
    from ._drifting import check_alarms, drift, drift_data

    if not arguments.json:
        yield from drift(arguments, default_registry())
        return
    data = drift_data(arguments, default_registry())
    yield _json(data)
    check_alarms(data["alarms"])


def _add_matrix(commands: Commands) -> None:
    # It has a parser of its own, which `main` calls; this is its line in the help.
    commands.add_parser(_MATRIX, help="say what works on which versions, and find it out", add_help=False)


COMMANDS: tuple[Callable[[Commands], None], ...] = (
    _add_plan,
    _add_list,
    _add_show,
    _add_export,
    _add_verify,
    _add_drift,
    _add_matrix,
)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add `--include` and `--exclude`; both take several ids and may be repeated."""
    parser.add_argument("--include", nargs="+", action="extend", metavar="ID", help="only these specs")
    parser.add_argument("--exclude", nargs="+", action="extend", metavar="ID", default=[], help="all but these specs")


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _json(data: object) -> str:
    return json.dumps(data, indent=2)


def _write(lines: Iterable[str]) -> None:
    # Sources may hold characters that the terminal's encoding does not have.
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in lines:
        sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    # A closed pipe is often noticed only here.
    sys.stdout.flush()


def _close_stdout() -> None:
    """Make stdout lead nowhere: Python flushes it once more at its end, and would complain about the closed pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
