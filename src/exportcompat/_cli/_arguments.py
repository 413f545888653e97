"""The arguments of `export`, `verify`, `serve` and `drift`. What they do is elsewhere, and imported later."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat.registry import PACKAGES


def _export(arguments: argparse.Namespace) -> Iterator[str]:
    from ._export import run_export

    return run_export(arguments)


def _verify(arguments: argparse.Namespace) -> Iterator[str]:
    from ._verify import run_verify

    return run_verify(arguments)


def _serve(arguments: argparse.Namespace) -> Iterator[str]:
    from ._serve import run_serve

    return run_serve(arguments)


def add_export(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `export`."""
    text = "export a model to a folder, and compare the file with eager"
    parser: argparse.ArgumentParser = commands.add_parser("export", help=text, description=text, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL_DIR", help="a folder with a model, or its name on the hub")
    parser.add_argument("folder", metavar="OUT_DIR", help="where the files and their configuration go")
    parser.add_argument("--task", metavar="TASK", help="default: that of the architecture; a wrong one lists all")
    _add_inputs(parser)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), help="default: that of the weights")
    parser.add_argument("--opset", type=int, metavar="N", help="version of ONNX's operators; default: 23, or torch's")
    parser.add_argument(
        "--external-data",
        choices=("auto", "always", "never"),
        default="auto",
        help="put the weights into a second file; auto: from 128 MB on",
    )
    parser.add_argument(
        "--layout",
        choices=("flat", "transformers.js"),
        default="flat",
        help="where the ONNX files go: beside the others, or into onnx/ as transformers.js wants them",
    )
    parser.add_argument("--serve", metavar="TARGET", help="also derive a faster file for a runtime: cpu")
    _add_weights(parser)
    parser.add_argument(
        "--cache",
        choices=("full", "window"),
        default="full",
        help="window: layers that slide take and return their window of tokens alone, and not the full past",
    )
    parser.add_argument("--overwrite", action="store_true", help="write into a folder that is not empty")
    parser.add_argument(
        "--on-assumption",
        choices=("warn", "error", "ignore"),
        default="warn",
        help="where the graph is right for some sizes only: warn, stop, or say it in the result alone",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not compare with eager")
    parser.add_argument("--traceback", action="store_true", help="show the whole error of an export that fails")
    _add_talk(parser)
    parser.set_defaults(run=_export)
    return parser


def add_verify(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `verify`."""
    text = "compare an exported file, or all files of a folder, with the model that they were made of"
    parser: argparse.ArgumentParser = commands.add_parser("verify", help=text, description=text, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE_OR_FOLDER", help="an ONNX file, or a folder with some")
    parser.add_argument("--model", metavar="MODEL_DIR", help="the model; default: what the file says")
    parser.add_argument("--task", metavar="TASK", help="default: what the file says, or that of the architecture")
    parser.add_argument(
        "--provider",
        metavar="NAME",
        default="CPUExecutionProvider",
        help="what runs the file in ONNX Runtime: CPUExecutionProvider (default) or CUDAExecutionProvider",
    )
    _add_contract(parser)
    _add_inputs(parser)
    _add_talk(parser)
    parser.set_defaults(run=_verify)
    return parser


def _add_contract(parser: argparse.ArgumentParser) -> None:
    """Add what calls a file of others does not promise to take."""
    group = parser.add_argument_group("contract of a decoder", "for a file that promises less than every call")
    group.add_argument("--no-padding", action="store_true", help="no call with left padding")
    group.add_argument("--batch", type=_positive, metavar="N", help="at most N sequences in a call")
    group.add_argument("--no-chunks", action="store_true", help="after the first call one new token at a time")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is no count of sequences; give 1 or more")
    return number


def add_serve(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `serve`."""
    text = "derive a faster file of a decoder for a runtime, compare it with eager, and time it beside the plain one"
    parser: argparse.ArgumentParser = commands.add_parser("serve", help=text, description=text, allow_abbrev=False)
    parser.add_argument("file", metavar="FILE", help="an ONNX file of a decoder")
    parser.add_argument("--target", metavar="TARGET", default="cpu", help="cpu (default), cuda or webgpu")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="default: <name>_<target>.onnx beside the file; not for an encoder-decoder",
    )
    _add_weights(parser)
    parser.add_argument(
        "--unverified", action="store_true", help="write a file for a runtime that is not here, without a comparison"
    )
    parser.add_argument("--model", metavar="MODEL_DIR", help="the model; default: what the file says")
    parser.add_argument("--task", metavar="TASK", help="default: what the file says, or that of the architecture")
    _add_inputs(parser)
    _add_talk(parser)
    parser.set_defaults(run=_serve)
    return parser


def _add_weights(parser: argparse.ArgumentParser) -> None:
    """Add how small the weights of a derived file are."""
    text = "of the derived file: int8, int4 or int4-zero-points, in blocks of 32; the loss is measured and reported"
    parser.add_argument("--weights", metavar="WEIGHTS", help=text)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add what a model is run on."""
    parser.add_argument("--prompt", metavar="TEXT", help="text to run the model on; default: made-up tokens")
    parser.add_argument(
        "--image", metavar="FILE", type=Path, action="append", default=[], help="image to run it on; may be repeated"
    )
    parser.add_argument(
        "--audio", metavar="FILE", type=Path, action="append", default=[], help="sound (WAV); may be repeated"
    )
    parser.add_argument(
        "--inputs", metavar="FILE.npz", type=Path, help="all arguments, as numpy.savez has written them"
    )
    parser.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model")


def _add_talk(parser: argparse.ArgumentParser) -> None:
    """Add how much is said while it runs."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quiet", action="store_true", help="no progress, errors alone")
    group.add_argument("--verbose", action="store_true", help="also what torch and transformers say")


def add_drift(commands: Any) -> argparse.ArgumentParser:
    """Add the parser of `exportcompat drift`."""
    text = "say for each spec whether it still fits the sources of a release, which is neither installed nor run"
    parser: argparse.ArgumentParser = commands.add_parser("drift", help=text, description=text, allow_abbrev=False)
    source = "a version, newest, installed, or the path of a wheel, an sdist or a folder"
    for package in PACKAGES:
        parser.add_argument(f"--{package}", metavar="SOURCE", help=source)
    parser.add_argument(
        "--package", metavar="NAME=SOURCE", action="append", default=[], help="the same for any other package"
    )
    parser.add_argument("--installed", action="store_true", help="what is installed of those that specs write to")
    parser.add_argument("--against", metavar="SOURCE", help="take diffs against this; default: the last proved release")
    parser.add_argument("--no-diff", action="store_true", help="no diffs, and no other release is fetched")
    parser.add_argument("--all", action="store_true", help="also print what is unchanged")
    parser.add_argument("--index", metavar="URL", help="a simple index; default: what uv or pip is configured with")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where fetched files are kept")
    return parser
