"""`python -m exportcompat.matrix`: one case in this process, the proofs, or the quickstart."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from exportcompat.registry import ExportCompatError

from ._cases import parse_proof
from ._probes import Probes
from ._quickstart import quickstart


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m exportcompat.matrix", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="export one case and print the outcome as a line of JSON")
    check.add_argument("case", help="a case, or case:batch,past,new")
    check.add_argument("--plain", action="store_true", help="do not apply patches")
    check.add_argument("--exclude", action="append", default=[], metavar="ID", help="leave a spec out")
    commands.add_parser("quickstart", help="export every case without and with patches, and print a table")
    proofs = commands.add_parser("prove", help="run the proofs of every spec that applies, without and with it")
    proofs.add_argument("spec", nargs="*", help="ids; all that apply by default")
    proofs.add_argument("--lock", type=Path, metavar="FILE", help="add the proved sources to this lock file")
    cell = commands.add_parser("cell", help="check cases on the installed versions and keep the results")
    cell.add_argument("case", nargs="*", help="names or shell patterns of cases; all by default")
    cell.add_argument("--results", type=Path, default=Path("matrix/results"), metavar="FOLDER")
    cell.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    cell.add_argument("--fresh", action="store_true", help="check again what has a result")
    table = commands.add_parser("summary", help="print the results as a table")
    table.add_argument("--results", type=Path, default=Path("matrix/results"), metavar="FOLDER")
    ends = commands.add_parser("ends", help="prove specs just inside and just outside each end of their ranges")
    ends.add_argument("spec", nargs="*", help="ids; all by default")
    walk = commands.add_parser("bisect", help="find the releases that need a spec by walking them")
    walk.add_argument("spec")
    walk.add_argument("--package", default="transformers", help="whose releases are walked (transformers)")
    walk.add_argument("--case", help="what is exported; the first proof by default")
    for item in (ends, walk):
        item.add_argument("--folder", type=Path, default=Path(".nox/probes"), help="for environments and answers")
        item.add_argument("--wheel", type=Path, help="the wheel of exportcompat that is tried")
    arguments = parser.parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except ExportCompatError as error:
        print(f"exportcompat.matrix: error: {error}", file=sys.stderr)
        return 2


def _check(arguments: argparse.Namespace) -> int:
    case, sample = parse_proof(arguments.case)
    from ._check import check, quiet

    with quiet():
        outcome = check(case, sample, patched=not arguments.plain, exclude=arguments.exclude)
    print(json.dumps(outcome.to_dict()))
    return 0


def _prove(arguments: argparse.Namespace) -> int:
    from ._prove import prove

    return prove(arguments.lock, arguments.spec)


def _cell(arguments: argparse.Namespace) -> int:
    from ._cell import run_cell

    return run_cell(arguments.results, arguments.case, jobs=arguments.jobs, fresh=arguments.fresh)


def _summary(arguments: argparse.Namespace) -> int:
    from ._summary import summary

    print(summary(arguments.results))
    return 0


def _ends(arguments: argparse.Namespace) -> int:
    from exportcompat.patches import default_registry

    from ._ends import prove_ends

    ids = arguments.spec or list(dict.fromkeys(spec.id for spec in default_registry()))
    return prove_ends(Probes(arguments.folder, arguments.wheel), ids)


def _bisect(arguments: argparse.Namespace) -> int:
    from ._ends import bisect

    return bisect(Probes(arguments.folder, arguments.wheel), arguments.spec, arguments.package, arguments.case)


_COMMANDS = {
    "check": _check,
    "quickstart": lambda _: quickstart(),
    "prove": _prove,
    "cell": _cell,
    "summary": _summary,
    "ends": _ends,
    "bisect": _bisect,
}

if __name__ == "__main__":
    sys.exit(main())
