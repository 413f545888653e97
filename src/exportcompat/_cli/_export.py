"""What `exportcompat export` does once the arguments are parsed."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from exportcompat._api import plan
from exportcompat._companions import check_companions
from exportcompat._errors import MismatchError
from exportcompat._exporter import Exported, check_cache, check_opset, check_serve, copy_companions, export
from exportcompat._extras import require
from exportcompat._observer import Inputs, first_line, runs_generate
from exportcompat._sample_inputs import Given, check_given, check_task, facts
from exportcompat._serving import Served
from exportcompat._verification import Discrepancies
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError, Registry, installed_version, parse_range

from ._model_loader import Loaded, Source, find_source, load
from ._options import registry_of, to_json
from ._output_folder import left_before, staged
from ._progress_counts import counting, counting_nodes
from ._talk import Talk, calm
from ._transformers_js import lay_out

_NEEDED = ("onnx>=1.17", "onnxscript>=0.2", "onnx-ir>=0.1", "onnxruntime>=1.20")
_SHOWN = 20
"""Names of a list in one line of text; `--json` has all."""


def run_export(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the comparison and the files that were written.

    Raises:
        ExportCompatError: the model cannot be loaded or exported, or a registry that is named cannot be had.
        MismatchError: the file differs from eager.
    """
    given = given_of(arguments)
    registry = registry_of(arguments, default_registry())
    _check_first(arguments, given, registry)
    talk, folder = Talk(is_quiet=arguments.quiet), Path(arguments.folder)
    staging_folder = staged(folder, arguments.model, overwrite=arguments.overwrite)
    with calm(is_verbose=arguments.verbose), talk.ticking(), staging_folder as staging:
        talk("load ...")
        source = find_source(arguments.model, trust=arguments.trust_remote_code)
        loaded = load(source, arguments.task, given)
        notes(loaded, talk)
        _check_serve(arguments.serve, loaded)
        made = _export(loaded, staging, arguments, talk, registry)
        missing = _companions(loaded, staging, folder, arguments.dtype)
        lay_out(staging, arguments.layout)
        files = sorted(path.relative_to(staging) for path in staging.rglob("*") if path.is_file())
    made = _at(made, folder, files)
    left = left_before(folder, files)
    yield from [_json(made, left)] if arguments.json else _report(made, missing, left)
    if made.discrepancies is not None:
        judge(made.path, made.discrepancies)


def given_of(arguments: argparse.Namespace) -> Given:
    """Return what the caller wants a model to be run on."""
    return Given(arguments.prompt, arguments.image, arguments.audio, arguments.inputs)


def _check_first(arguments: argparse.Namespace, given: Given, registry: Registry) -> None:
    """Refuse what can be told to be wrong before any work."""
    check_task(arguments.task)
    check_given(given)
    check_companions(registry)
    plan(include=arguments.include, exclude=arguments.exclude, registry=registry)
    for package in ("torch", "transformers", "onnxscript", *([] if arguments.no_verify else ["onnxruntime"])):
        require(package, "transformers" if package == "transformers" else "onnx")
    for text in _NEEDED:
        wanted = parse_range(text)
        found = installed_version(wanted.package)
        if found is not None and not wanted.admits(found):
            raise ExportCompatError(
                f"{wanted.package} {found} is installed, and {text} is needed; run: pip install --upgrade '{text}'"
            )
    check_opset(arguments.opset)
    check_serve(arguments.serve, arguments.weights)
    check_cache(arguments.cache, arguments.serve)


def _check_serve(target: str | None, loaded: Loaded) -> None:
    """Refuse to derive a file of a model without a cache, before it is exported.

    Raises:
        ExportCompatError: a file is to be derived, and the task has no cache.
    """
    if target is not None and not loaded.task.generates:
        raise ExportCompatError(
            f"--serve {target}: files are derived of decoders with a cache, and {loaded.source.name!r} is exported for "
            f"{loaded.task.name!r}, which has none; leave out --serve, or give a --task that ends in -with-past"
        )


def notes(loaded: Loaded, talk: Talk) -> None:
    """Say what the model is taken for, what it is run on, and what of its folder could not be used."""
    for note in loaded.notes:
        talk(f"  {note}")
    talk(f"  {type(loaded.model).__name__} for {loaded.task.name}, run on {facts(loaded.inputs)}")


def _export(loaded: Loaded, staging: Path, arguments: argparse.Namespace, talk: Talk, registry: Registry) -> Exported:
    about = {
        "task": loaded.task.name,
        "source": loaded.source.name,
        "revision": loaded.source.revision,
        "dtype": arguments.dtype or "",
    }
    inputs = loaded.inputs if len(loaded.inputs) > 1 else loaded.inputs[0]
    failing = _failing(loaded.source, facts(loaded.inputs), talk, shows_all=arguments.traceback)
    with failing, counting(loaded.model, talk.count), counting_nodes(talk.count):
        return export(
            loaded.model,
            inputs,
            staging,
            opset=arguments.opset,
            dtype=arguments.dtype,
            external_data={"auto": None, "always": True, "never": False}[arguments.external_data],
            generate=_generate(arguments.task, loaded, inputs),
            about=about,
            verify=not arguments.no_verify,
            on_assumption=arguments.on_assumption,
            patches={"include": arguments.include, "exclude": arguments.exclude},
            registry=registry,
            progress=talk,
            serve=arguments.serve,
            weights=arguments.weights,
            cache=arguments.cache,
        )


def _generate(task: str | None, loaded: Loaded, inputs: Inputs) -> bool | None:
    """Return what `export` is told of `generate`: None, where nobody has named a task, lets it do without a cache."""
    is_open = task is None and loaded.task.generates and runs_generate(loaded.model, inputs)
    return None if is_open else loaded.task.generates


@contextmanager
def _failing(source: Source, shapes: str, talk: Talk, *, shows_all: bool) -> Iterator[None]:
    """Turn an error of torch or of the model into one line, which says at which stage it was."""
    try:
        yield
    except ExportCompatError:
        raise
    except Exception as error:
        # Models, and the exporters of torch and onnxscript, raise exceptions of any class.
        if shows_all:
            raise
        said = f"{first_line(error)} (--traceback shows all)"
        if talk.stage == "observe":
            raise ExportCompatError(
                f"{source.name!r} does not run on {shapes}: {said}; give --inputs FILE.npz with arrays that it takes"
            ) from error
        raise MismatchError(f"{source.name!r} does not export: {said}") from error


def _companions(loaded: Loaded, staging: Path, folder: Path, dtype: str | None) -> list[str]:
    """Copy what clients need from the folder of the model, and return what was left out."""
    source = Path(loaded.source.name)
    if not source.is_dir():
        source = _snapshot(loaded.source)
    floating = next((str(item.dtype) for item in loaded.model.parameters() if item.is_floating_point()), "float32")
    return copy_companions(source, staging, dtype or floating.removeprefix("torch."), folder)[1]


def _snapshot(source: Source) -> Path:
    """Return the folder that the hub's client keeps a repository in; it fetches what is small and not there yet."""
    hub: Any = require("huggingface_hub", "transformers")
    weights = ["*.safetensors", "*.bin", "*.h5", "*.msgpack", "*.onnx*", "*.gguf", "*.pt", "*.pth", "*.ot", "*.ckpt"]
    return Path(hub.snapshot_download(source.name, revision=source.revision or None, ignore_patterns=weights))


def _at(made: Exported, folder: Path, files: list[Path]) -> Exported:
    """Return what was made, at its last place."""
    path = next(folder / file for file in files if file.name == made.path.name)
    served = made.served
    if served is not None and served.path is not None:
        served = replace(served, path=next(folder / file for file in files if file.name == served.path.name))
    return replace(made, path=path, files=[folder / file for file in files if folder / file != path], served=served)


def _json(made: Exported, left: list[str]) -> str:
    more: dict[str, Any] = {} if made.served is None else {"served": served_data(made.served)}
    more |= {"quantized": made.weights} if made.weights else {}
    more |= {"no_cache": made.no_cache} if made.no_cache else {}
    files = [str(file) for file in made.files]
    return to_json(document(made.path, made.discrepancies, specs=made.report.used, files=files, left=left, **more))


def _report(made: Exported, missing: list[str], left: list[str]) -> Iterator[str]:
    """Yield the lines of an export, given what was not copied and what an earlier one has left."""
    first, *others = str(made).splitlines()
    yield f"{first} (--json names them)" if made.report.used else first
    yield from others
    yield from (f"also written: {file}" for file in made.files)
    if missing:
        yield f"not copied, as they are weights or hidden: {', '.join(missing)}"
    if left:
        yield f"left from before: {_listed(left)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more (--json names them)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def document(path: Path, found: Discrepancies | None, **others: Any) -> dict[str, Any]:
    """Return what the command prints of a file with `--json`."""
    rows = [] if found is None else [{**vars(row)} for row in found]
    verdict = None if found is None else found.success
    return {"path": str(path), "success": verdict, **others, "calls": rows}


def served_data(served: Served) -> dict[str, Any]:
    """Return what `--json` says of a derived file."""
    return {
        "path": None if served.path is None else str(served.path),
        "target": served.target,
        "contract": asdict(served.contract),
        "attempts": [{"name": item.name, "kept": item.kept, "reason": item.reason} for item in served.attempts],
        "loss": None if served.loss is None else asdict(served.loss),
    }


def judge(path: Path, found: Discrepancies) -> None:
    """Raise an error if a file differs from eager.

    Raises:
        MismatchError: it does.
    """
    if not found.success:
        raise MismatchError(f"{path} is not right: {found.summary}")
