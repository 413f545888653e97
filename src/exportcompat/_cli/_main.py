"""The command `exportcompat`: says what the specs are and which of them apply, exports a model, verifies a file.

A subcommand is two functions: one adds its parser and names the other as `run`, which takes the parsed arguments and
yields lines of text. The first is then listed in `COMMANDS`.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from exportcompat._errors import AlarmError, MismatchError
from exportcompat._version import __version__
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

from ._arguments import add_drift, add_export, add_serve, add_verify
from ._audit_command import add_audit
from ._dataset_commands import add_resolve, add_works
from ._options import Commands, add_json, add_registry, add_selection, registry_of, to_json
from ._parser import Parser
from ._plan import add_plan
from ._registry_commands import add_list, add_show

_MATRIX = "matrix"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status.

    It is 0, or 2 where the input cannot be used, or 1 for a file that is not right, and for a closed pipe.

    Args:
        argv: the arguments after the command's name; None means those of this process.

    Raises:
        KeyboardInterrupt: it was interrupted; `exportcompat.__main__.run` says so in one line.
        SystemExit: argparse ends the program itself for `--help`, `--version` (0) and for wrong usage (2).
    """
    argv = sys.argv[1:] if argv is None else argv
    try:
        if argv[:1] == [_MATRIX]:
            from exportcompat.matrix.__main__ import main as matrix

            return matrix(argv[1:], f"exportcompat {_MATRIX}")
        arguments = _parser().parse_args(argv)
        _write(arguments.run(arguments))
    except ExportCompatError as error:
        sys.stderr.write(f"exportcompat: error: {error}\n")
        return 1 if isinstance(error, (MismatchError, AlarmError)) else 2
    except BrokenPipeError:
        _close_stdout()
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="exportcompat",
        description="Patches that make torch.export of Hugging Face models work, and exports that are right.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"exportcompat {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    return parser


def _add_export(commands: Commands) -> None:
    parser = add_export(commands)
    add_selection(parser)
    add_registry(parser)
    add_json(parser)


def _add_verify(commands: Commands) -> None:
    add_json(add_verify(commands))


def _add_serve(commands: Commands) -> None:
    add_json(add_serve(commands))


def _add_works(commands: Commands) -> None:
    add_json(add_works(commands))


def _add_resolve(commands: Commands) -> None:
    add_json(add_resolve(commands))


def _add_audit(commands: Commands) -> None:
    add_json(add_audit(commands))


def _add_drift(commands: Commands) -> None:
    parser = add_drift(commands)
    add_registry(parser, "the specs of this registry alone")
    add_json(parser)
    parser.set_defaults(run=_drift)


def _drift(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield what became of every target in a release.

    Raises:
        AlarmError: something does not fit any more.
        ExportCompatError: the release cannot be read.
    """
    from ._drift import check_alarms, drift, drift_data

    registry = registry_of(arguments, default_registry(), alone=True)
    if not arguments.json:
        yield from drift(arguments, registry)
        return
    data = drift_data(arguments, registry)
    yield to_json(data)
    check_alarms(data["alarms"])


def _add_matrix(commands: Commands) -> None:
    # It has a parser of its own, which `main` calls; this is its line in the help.
    commands.add_parser(_MATRIX, help="say what works on which versions, and find it out", add_help=False)


COMMANDS: tuple[Callable[[Commands], None], ...] = (
    add_plan,
    add_list,
    add_show,
    _add_works,
    _add_resolve,
    _add_audit,
    _add_export,
    _add_verify,
    _add_serve,
    _add_drift,
    _add_matrix,
)


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
