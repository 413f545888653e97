"""`exportcompat matrix`: what works on which versions, and the proofs of the specs."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError, installed_version

Commands = Any
"""What `add_subparsers` returns; its class is private to argparse."""

_EDITABLE = "pip install -e '.[all]', or the sessions of nox"
_RESULTS = Path("matrix/results")
_ZOO = Path("matrix/zoo/results")
_LANES = Path("matrix/lanes/results.jsonl")
_JUDGE = Path("matrix/judge/results.jsonl")
_PAGE = Path("build/matrix.html")
_DATA = Path("build/exportcompat-data/exportcompat_data")


def main(argv: Sequence[str] | None = None, program: str = "python -m exportcompat.matrix") -> int:
    """Run a command; return its exit status."""
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in _COMMANDS:
        add(commands)
    try:
        arguments = parser.parse_args(argv)
        status: int = arguments.run(arguments)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(f"{__package__}."):
            raise
        print(f"{program}: error: the wheel has not this command; in a checkout: {_EDITABLE}", file=sys.stderr)
        return 2
    except ExportCompatError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 2
    return status


def _add(commands: Commands, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=_RESULTS, metavar="FOLDER", help=f"result files ({_RESULTS})")


def _add_run(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .runs import run_matrix

        return run_matrix(arguments)

    parser = _add(commands, "run", "run the cells that are not known, and print a table", run)
    parser.add_argument("--all", action="store_true", help="every cell, with the cases that axes.toml gives it")
    parser.add_argument("--torch", metavar="RELEASE", help="cells with this torch: 2.9, 2.9.1, '2.1*'")
    parser.add_argument("--transformers", metavar="RELEASE", help="cells with this transformers: 4.57, '4.5*'")
    parser.add_argument("--season", metavar="NAME", help="the cells of a season: 2.6, or all")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="cases, as shell patterns")
    parser.add_argument("--shard", metavar="I/N", help="a part of the cells, such as 2/5")
    parser.add_argument("--list", action="store_true", help="show what would be run, and end")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument("--resume", action="store_true", help="run what is not known (this is what happens anyway)")
    parser.add_argument("--fresh", action="store_true", help="run again what is known")
    _add_carry(parser)
    parser.add_argument("--pre", action="store_true", help="the newest pre-releases instead; never fails the run")
    parser.add_argument("--report", type=Path, default=_PAGE, metavar="FILE")
    _add_cells(parser)


def _add_cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time (2)")
    _add_environments(parser, ".nox/cells", "for the environments")
    _add_results(parser)


def _add_environments(parser: argparse.ArgumentParser, folder: str, purpose: str) -> None:
    parser.add_argument("--folder", type=Path, default=Path(folder), help=purpose)
    parser.add_argument("--wheel", type=Path, help="the wheel of exportcompat that is tried")


def _add_why(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .reports import why

        releases = (arguments.transformers or _installed("transformers"), arguments.torch or _installed("torch"))
        print("\n".join(why(arguments.results, arguments.case, *releases)))
        return 0

    parser = _add(commands, "why", "say from the results how a case is on given versions, and why", run)
    parser.add_argument("case", metavar="CASE_OR_MODEL", help="a case, a model type, a class, a folder, a hub name")
    for package in ("transformers", "torch"):
        parser.add_argument(f"--{package}", metavar="RELEASE", help="default: what is installed")
    _add_results(parser)


def _installed(package: str) -> str:
    """Return the release that is installed.

    Raises:
        ExportCompatError: there is none.
    """
    version = installed_version(package)
    if version is None:
        raise ExportCompatError(f"{package} is not installed; give --{package} RELEASE")
    return str(version.public)


def _add_report(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .reports import write_report

        write_report(arguments.results, arguments.out, arguments.format)
        print(arguments.out)
        return 0

    parser = _add(commands, "report", "write all results as a page, as Markdown or as JSON", run)
    parser.add_argument("--format", choices=("html", "md", "json"), default="html")
    parser.add_argument("--out", type=Path, default=_PAGE, metavar="FILE")
    _add_results(parser)


def _add_dataset(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .dataset import write_dataset

        for line in write_dataset(arguments.results, arguments.out, version=arguments.version):
            print(line)
        return 0

    parser = _add(commands, "dataset", "write the files of exportcompat-data: results, specs, advisories, badges", run)
    parser.add_argument("--out", type=Path, default=_DATA, metavar="FOLDER", help=f"replaced as a whole ({_DATA})")
    parser.add_argument("--version", default="", help="of the data; default: 1 and the date of the newest result")
    _add_results(parser)


def _add_merge(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .store import merge

        for line in merge(arguments.folder, arguments.results):
            print(line)
        return 0

    parser = _add(commands, "merge", "put the results of several folders together", run)
    parser.add_argument("folder", nargs="+", type=Path)
    _add_results(parser)


def _add_rekey(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .store import rekey, write_evidence

        lines = [write_evidence(arguments.results, arguments.write)] if arguments.write else []
        for line in lines or rekey(arguments.results, getattr(arguments, "from")):
            print(line)
        return 0

    parser = _add(commands, "rekey", "give results new keys where the code that they rest on is the same", run)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--write", type=Path, metavar="FILE", help="before a change: write what current results rest on")
    way.add_argument("--from", type=Path, metavar="FILE", help="after it: set the keys of those that rest on the same")
    _add_results(parser)


def _add_releases(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .versions import add_releases

        for line in add_releases(arguments.table, arguments.index):
            print(line)
        return 0

    parser = _add(commands, "releases", "add new releases of torch and transformers to the table", run)
    parser.add_argument("--table", type=Path, default=Path("matrix/axes.toml"), metavar="FILE")
    parser.add_argument("--index", metavar="URL", help="a simple index; default: what uv or pip is configured with")


def _add_seasons(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .versions import write_seasons

        for line in write_seasons(arguments.table, arguments.index):
            print(line)
        return 0

    text = "find the versions that were current together with each torch, and write them to the table"
    parser = _add(commands, "seasons", text, run)
    parser.add_argument("--table", type=Path, default=Path("matrix/axes.toml"), metavar="FILE")
    parser.add_argument("--index", metavar="URL", help="a simple index; default: what uv or pip is configured with")


def _add_fingerprints(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .proofs import Options, refresh

        for line in refresh(arguments.lock, Options(arguments.index, arguments.cache, arguments.jobs)):
            print(line, flush=True)
        return 0

    parser = _add(
        commands, "fingerprints", "look at every supported release and note its sources in the lock file", run
    )
    parser.add_argument("--lock", type=Path, default=Path("patches/fingerprints.json"), metavar="FILE")
    _add_wheels(parser)


def _add_backtest(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from ._files import write_section
        from .proofs import Options, backtest_report

        text = backtest_report(Options(arguments.index, arguments.cache, arguments.jobs))
        if arguments.page:
            write_section(arguments.page, "backtest", text)
        else:
            print(text)
        return 0

    parser = _add(commands, "backtest", "say what `drift` would have announced in each past release", run)
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="write it between its marks on a page (docs/drift.md)"
    )
    _add_wheels(parser)


def _add_wheels(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", metavar="URL", help="a simple index; default: what uv or pip is configured with")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where wheels are kept")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")


def _add_check(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .cases import parse_proof
        from .checks import check, quiet

        case, sample = parse_proof(arguments.case)
        with quiet():
            outcome = check(case, sample, patched=not arguments.plain, exclude=arguments.exclude)
        print(json.dumps(outcome.to_dict()))
        return 0

    parser = _add(commands, "check", "export one case and print the outcome as a line of JSON", run)
    parser.add_argument("case", help="a case, or case:batch,past,new")
    parser.add_argument("--plain", action="store_true", help="do not apply patches")
    parser.add_argument("--exclude", action="append", default=[], metavar="ID", help="leave a spec out")


def _add_quickstart(commands: Commands) -> None:
    def run(_: argparse.Namespace) -> int:
        from .runs import quickstart

        return quickstart()

    _add(commands, "quickstart", "export the shown cases without and with patches, and print a table", run)


def _add_prove(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .proofs import prove

        return prove(arguments.lock, arguments.spec, arguments.case)

    parser = _add(commands, "prove", "run the proofs of every spec that applies, without and with it", run)
    parser.add_argument("spec", nargs="*", help="ids; all that apply by default")
    parser.add_argument("--case", action="append", default=[], help="prove with this case, not with those of the specs")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="add the proved sources to this lock file")


def _add_cell(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .runs import run_cell

        return run_cell(
            arguments.results,
            arguments.case,
            jobs=arguments.jobs,
            fresh=arguments.fresh,
            carry=arguments.carry,
            season=arguments.season,
            proofs=arguments.proofs,
        )

    parser = _add(commands, "cell", "check cases on the installed versions and keep the results", run)
    parser.add_argument("case", nargs="*", help="names or shell patterns of cases; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--season", default="", metavar="NAME", help="keep the results as those of a season")
    parser.add_argument("--fresh", action="store_true", help="check again what has a result")
    proofs = "check each spec's first proof without it as well, not only those at the ends of ranges"
    parser.add_argument("--proofs", action="store_true", help=proofs)
    _add_carry(parser)
    _add_results(parser)


def _add_carry(parser: argparse.ArgumentParser) -> None:
    text = "take the result of another transformers where the captured programs and eager's answers are the same"
    parser.add_argument("--carry", action="store_true", help=text)


def _add_audit(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .runs import audit

        return audit(arguments)

    text = "run carried results that are drawn at random, and fail if one comes out in another state"
    parser = _add(commands, "audit", text, run)
    parser.add_argument("--carried", type=int, default=40, metavar="N", help="how many are drawn (40)")
    parser.add_argument("--seed", type=int, default=0, help="for drawing (0)")
    _add_cells(parser)


def _add_summary(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .reports import overview, write_overview

        if arguments.page:
            write_overview(arguments.results, arguments.page)
        else:
            print(overview(arguments.results))
        return 0

    parser = _add(commands, "summary", "say on a screen what the results are", run)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write it between its marks on a page (README.md)")
    _add_results(parser)


def _add_boundaries(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .proofs import prove_boundaries

        return prove_boundaries(arguments)

    parser = _add(commands, "boundaries", "prove specs just inside and just outside each end of their ranges", run)
    parser.add_argument("spec", nargs="*", help="ids; all by default")
    _add_cells(parser)


def _add_bisect(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .proofs import BisectionRuns, bisect

        probes = BisectionRuns(arguments.folder, arguments.wheel)
        return bisect(probes, arguments.spec, arguments.package, arguments.case)

    parser = _add(commands, "bisect", "find the releases that need a spec by walking them", run)
    parser.add_argument("spec")
    parser.add_argument("--package", default="transformers", help="whose releases are walked (transformers)")
    parser.add_argument("--case", help="what is exported; the first proof by default")
    _add_environments(parser, ".nox/probes", "for environments and answers")


def _add_zoo(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .zoo import run_zoo, write_page

        return write_page(arguments.results, arguments.page) if arguments.page else run_zoo(arguments)

    parser = _add(
        commands, "zoo", "export every model type of the installed transformers, and keep what came of it", run
    )
    parser.add_argument(
        "--task", action="append", default=[], metavar="NAME", help="only these tasks, as shell patterns"
    )
    parser.add_argument(
        "--type", action="append", default=[], metavar="NAME", help="only these types, as shell patterns"
    )
    parser.add_argument("--fresh", action="store_true", help="run again what has a result")
    parser.add_argument(
        "--again", action="append", default=[], metavar="OUTCOME", help="run again what is: fails, wrong"
    )
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), help="export models in it; results are kept apart")
    parser.add_argument("--list", action="store_true", help="show what would be run, and end")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (2)")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for a model (300)")
    parser.add_argument("--results", type=Path, default=_ZOO, metavar="FOLDER", help=f"result files ({_ZOO})")
    parser.add_argument("--page", type=Path, metavar="FILE", help="run nothing; write the page of the results")


def _add_kept(parser: argparse.ArgumentParser, results: Path, *, timeout: str) -> None:
    """Add what commands have in common that keep each result as a line, and go on from there."""
    parser.add_argument("--fresh", action="store_true", help="run again what has a result")
    parser.add_argument("--list", action="store_true", help="show what would be run, and end")
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help=f"{timeout} (600)")
    parser.add_argument("--results", type=Path, default=results, metavar="FILE", help=f"the results ({results})")
    parser.add_argument("--page", type=Path, metavar="FILE", help="run nothing; write the page of the results")


def _add_lanes(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .lanes import run_lanes, write_page

        return write_page(arguments.results, arguments.page) if arguments.page else run_lanes(arguments)

    parser = _add(commands, "lanes", "export the telling cases beyond ONNX, and keep what came of them", run)
    parser.add_argument("--lane", action="append", default=[], metavar="NAME", help="only these, as shell patterns")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="cases, as shell patterns")
    _add_kept(parser, _LANES, timeout="for a step")


def _add_judge(commands: Commands) -> None:
    def run(arguments: argparse.Namespace) -> int:
        from .judge import run_judge, write_page

        return write_page(arguments.results, arguments.page) if arguments.page else run_judge(arguments)

    parser = _add(commands, "judge", "let the installed exporters make files of decoders, and compare all alike", run)
    parser.add_argument("--maker", action="append", default=[], metavar="NAME", help="only these, as shell patterns")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="models, as shell patterns")
    _add_kept(parser, _JUDGE, timeout="for a file, and its judge")


_COMMANDS = (
    _add_run,
    _add_why,
    _add_report,
    _add_dataset,
    _add_merge,
    _add_rekey,
    _add_releases,
    _add_seasons,
    _add_fingerprints,
    _add_backtest,
    _add_cell,
    _add_audit,
    _add_summary,
    _add_check,
    _add_quickstart,
    _add_prove,
    _add_boundaries,
    _add_bisect,
    _add_zoo,
    _add_lanes,
    _add_judge,
)

if __name__ == "__main__":
    sys.exit(main())
