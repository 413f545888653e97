"""What `exportcompat export` and `exportcompat verify` do once the arguments are parsed."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._companions import check_companions
from exportcompat._errors import MismatchError
from exportcompat._exporter import Exported, export
from exportcompat._extras import require
from exportcompat._observer import InputObserver, first_line, observe, observe_pair
from exportcompat._verification import PREFIX, Discrepancies, OnnxFile
from exportcompat.registry import ExportCompatError

from ._model_loader import Loaded, load


def run_export(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the comparison and the files that were written.

    Raises:
        ExportCompatError: the model cannot be loaded or exported.
        MismatchError: the file differs from eager.
    """
    source, folder = arguments.model, Path(arguments.folder)
    if folder.suffix == ".onnx" or folder.is_file():
        raise ExportCompatError(f"{folder} is no folder; name one, and model.onnx and its configuration are put there")
    check_companions()
    say("load ...")
    loaded = load(source, arguments.task, arguments.prompt)
    made = _export(loaded, source, folder, arguments)
    yield from _report(made, as_json=arguments.json)
    if made.discrepancies is not None:
        _judge(made.path, made.discrepancies)


def _export(loaded: Loaded, source: str, folder: Path, arguments: argparse.Namespace) -> Exported:
    about = {"task": loaded.task, "source": source, "dtype": arguments.dtype or ""}
    try:
        return export(
            loaded.model,
            loaded.inputs,
            folder,
            opset=arguments.opset,
            dtype=arguments.dtype,
            external_data={"auto": None, "always": True, "never": False}[arguments.external_data],
            generate=loaded.generates,
            tokenizer=loaded.tokenizer,
            about=about,
            verify=not arguments.no_verify,
            patches={"include": arguments.include, "exclude": arguments.exclude},
            progress=say,
        )
    except ExportCompatError:
        raise
    except Exception as error:
        # The exporters of torch and onnxscript raise exceptions of any class for a model that they cannot take.
        if arguments.traceback:
            raise
        raise MismatchError(f"{source!r} does not export: {first_line(error)} (--traceback shows all)") from error


def run_verify(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the comparison between a file and the model that it was made of.

    Raises:
        ExportCompatError: the file cannot be loaded, or does not say what it was made of.
        MismatchError: the file differs from eager.
    """
    path = Path(arguments.file)
    facts = OnnxFile(path).metadata
    source = arguments.model or facts.get(f"{PREFIX}source")
    if not source:
        raise ExportCompatError(f"{path} does not say which model it was made of; give --model FOLDER")
    say("load ...")
    loaded = load(source, arguments.task or facts.get(f"{PREFIX}task"))
    model = loaded.model.to(_dtype(facts.get(f"{PREFIX}dtype") or "float32"))
    say("observe ...")
    with apply_patches():
        observer = _observer(model, loaded, facts.get(f"{PREFIX}part"))
    say("verify ...")
    found = observer.check_discrepancies(path)
    yield from [_json(path, found)] if arguments.json else str(found).splitlines()
    _judge(path, found)


def _observer(model: Any, loaded: Loaded, part: str | None) -> InputObserver:
    """Run the model, and return what was seen of it, or of the part of an encoder-decoder that a file holds."""
    if part is None:
        return observe(model, loaded.inputs, generate=loaded.generates)
    return observe_pair(model, loaded.inputs)[part][1]


def _dtype(name: str) -> Any:
    return getattr(require("torch", "torch"), name)


def say(line: str) -> None:
    """Print progress, where results do not go."""
    print(line, file=sys.stderr, flush=True)


def _report(made: Exported, *, as_json: bool) -> Iterator[str]:
    if as_json:
        yield _json(made.path, made.discrepancies, specs=made.report.used, files=[str(file) for file in made.files])
        return
    yield from str(made).splitlines()
    yield from (f"also written: {file}" for file in made.files)


def _json(path: Path, found: Discrepancies | None, **others: Any) -> str:
    rows = [] if found is None else [{**vars(row)} for row in found]
    verdict = None if found is None else found.success
    return json.dumps({"path": str(path), "success": verdict, **others, "calls": rows}, indent=2)


def _judge(path: Path, found: Discrepancies) -> None:
    if not found.success:
        raise MismatchError(f"{path} is not right: {found.summary}")
