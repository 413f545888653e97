"""The subcommands `export`, `verify` and `drift`: their arguments. What they do is elsewhere, and imported later."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError

from ._tasks import TASKS


class MismatchError(ExportCompatError):
    """A file is not right, or there is none."""


class AlarmError(ExportCompatError):
    """Something does not fit any more; the message is a summary."""


def _export(arguments: argparse.Namespace) -> Iterator[str]:
    from ._run import run_export

    return run_export(arguments)


def _verify(arguments: argparse.Namespace) -> Iterator[str]:
    from ._run import run_verify

    return run_verify(arguments)


def add_export(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `export`."""
    text = "export a model to a folder, and compare the file with eager"
    parser: argparse.ArgumentParser = commands.add_parser("export", help=text, description=text, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL_DIR", help="a folder with a model, or its name on the hub")
    parser.add_argument("folder", metavar="OUT_DIR", help="where the files and their configuration go")
    parser.add_argument("--task", choices=list(TASKS), help="default: what the configuration says")
    parser.add_argument("--prompt", metavar="TEXT", help="text to run the model on; default: made-up tokens")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="default: that of the weights")
    parser.add_argument("--opset", type=int, metavar="N", help="version of ONNX's operators; default: that of torch")
    parser.add_argument(
        "--external-data",
        choices=("auto", "always", "never"),
        default="auto",
        help="put the weights into a second file; auto: from 128 MB on",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not compare with eager")
    parser.add_argument("--traceback", action="store_true", help="show the whole error of an export that fails")
    parser.set_defaults(run=_export)
    return parser


def add_verify(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `verify`."""
    text = "compare an exported file with the model that it was made of"
    parser: argparse.ArgumentParser = commands.add_parser("verify", help=text, description=text, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="an ONNX file that exportcompat has written")
    parser.add_argument("--model", metavar="MODEL_DIR", help="the model; default: what the file says")
    parser.add_argument("--task", choices=list(TASKS), help="default: what the file says")
    parser.set_defaults(run=_verify)
    return parser


def add_drift(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `exportcompat drift`."""
    text = "say for each spec whether it still fits the sources of a release, which is neither installed nor run"
    parser: argparse.ArgumentParser = commands.add_parser("drift", help=text, description=text, allow_abbrev=False)
    source = "a version, newest, installed, or the path of a wheel, an sdist or a folder"
    parser.add_argument("--transformers", metavar="SOURCE", help=source)
    parser.add_argument("--torch", metavar="SOURCE", help=source)
    parser.add_argument("--installed", action="store_true", help="what is installed of both")
    parser.add_argument("--against", metavar="SOURCE", help="take diffs against this; default: the last proved release")
    parser.add_argument("--no-diff", action="store_true", help="no diffs, and no other release is fetched")
    parser.add_argument("--all", action="store_true", help="also print what is unchanged")
    parser.add_argument("--index", metavar="URL", help="a simple index; default: what uv or pip is configured with")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where fetched files are kept")
    return parser
