"""What `exportcompat verify` does once the arguments are parsed."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from exportcompat._api import apply_patches
from exportcompat._observer import (
    BY_FORWARD,
    NO_CACHE,
    OBSERVED,
    InputObserver,
    first_line,
    observe,
    observe_encoder_decoder,
    observe_whole_texts,
)
from exportcompat._sample_inputs import WITH_PAST, check_given, check_task, completed, facts
from exportcompat._verification import (
    FIRST,
    LATER,
    PREFIX,
    Contract,
    Discrepancies,
    Discrepancy,
    UnmatchedError,
    check_provider,
    open_file,
)
from exportcompat.registry import ExportCompatError, NoCacheError

from ._export import document, given_of, judge, notes
from ._model_folder import gguf
from ._model_loader import Loaded, find_source, load
from ._options import to_json
from ._talk import Talk, calm

_PARTS = {
    "encoder_model": "encoder",
    **dict.fromkeys(("decoder_model_merged", "decoder_model", "decoder_with_past_model"), "decoder"),
}
"""The parts of an encoder-decoder by the names that optimum gives their files."""


@dataclass(frozen=True)
class _Made:
    """What a file says of its making, empty for what it does not say, and the names of its inputs."""

    source: str
    revision: str
    task: str
    dtype: str
    part: str
    observed: str
    no_cache: str
    inputs: tuple[str, ...]

    @property
    def without_cache(self) -> NoCacheError | None:
        """Why the model was given whole texts; None for a file with a cache."""
        return NoCacheError(self.no_cache) if self.observed == BY_FORWARD else None


def run_verify(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the table of the comparison between files and the model that they were made of.

    Raises:
        ExportCompatError: a file cannot be loaded, or does not say what it was made of; the provider is not there.
        MismatchError: a file differs from eager, or one of several cannot be compared.
    """
    check_task(arguments.task)
    check_given(given_of(arguments))
    check_provider(arguments.provider)
    talk = Talk(is_quiet=arguments.quiet)
    results = []
    with calm(is_verbose=arguments.verbose), talk.ticking():
        paths = _files(Path(arguments.file))
        for path in paths:
            compare = _compared if len(paths) == 1 else _compared_or_said
            results.append((path, compare(path, arguments, talk)))
            if not arguments.json:
                yield from (str(path), *str(results[-1][1]).splitlines())
    if arguments.json:
        yield _json(results, is_folder=Path(arguments.file).is_dir())
    for path, found in results:
        judge(path, found)


def _json(results: list[tuple[Path, Discrepancies]], *, is_folder: bool) -> str:
    """Return one document: that of a file, or those of a folder with the verdict on all."""
    documents = [document(path, found) for path, found in results]
    if not is_folder:
        return to_json(documents[0])
    return to_json({"success": all(found.success for _, found in results), "files": documents})


def _files(path: Path) -> list[Path]:
    """Return the file, or those of a folder.

    Raises:
        ExportCompatError: the folder has none, or the file is of another format.
    """
    check_format(path)
    if not path.is_dir():
        return [path]
    found = sorted([*path.glob("*.onnx"), *path.glob("onnx/*.onnx")])
    # The two parts of a decoder are compared as one.
    found = [item for item in found if item.name != LATER or item.with_name(FIRST) not in found]
    if not found:
        names = ", ".join(sorted(item.name for item in path.iterdir())[:8]) or "nothing"
        raise ExportCompatError(
            f"{path} has no ONNX file, and its onnx/ has none; it has {names}; name a folder that was exported"
        )
    return found


def check_format(path: Path) -> None:
    """Refuse weights of other programs, and folders that have nothing else.

    Raises:
        ExportCompatError: it is such a file or folder.
    """
    files = list(path.iterdir()) if path.is_dir() else [path]
    kinds = {item.suffix for item in files}
    if ".gguf" in kinds and ".onnx" not in kinds and not (path / "onnx").is_dir():
        raise ExportCompatError(gguf(str(path)))
    if path.suffix == ".safetensors":
        raise ExportCompatError(f"{path} has the weights of a model, and no graph; name a file that was exported")


def _compared_or_said(path: Path, arguments: argparse.Namespace, talk: Talk) -> Discrepancies:
    """Compare one of several files; what is against it is a failed row, since the others are to be compared as well."""
    try:
        return _compared(path, arguments, talk)
    except ExportCompatError as error:
        return Discrepancies([Discrepancy(call="no call", error=str(error))])


def _compared(path: Path, arguments: argparse.Namespace, talk: Talk) -> Discrepancies:
    """Compare a file with what was seen of its model.

    Raises:
        ExportCompatError: it takes what the model was not run with.
    """
    observer = observed(path, arguments, talk)
    talk("verify ...")
    try:
        count = partial(talk.count, "calls")
        return observer.check_discrepancies(
            path, progress_bar=count, provider=arguments.provider, contract=_contract(arguments)
        )
    except UnmatchedError as error:
        names, known = (", ".join(map(repr, items)) for items in (error.unknown, error.known))
        what = f"add {names} to {arguments.inputs}" if arguments.inputs else "give --inputs FILE.npz, with all of them"
        raise ExportCompatError(f"{path} takes {names}, and the model was run with {known} alone; {what}") from error


def _contract(arguments: argparse.Namespace) -> Contract:
    """Return the calls that are compared, by the options."""
    chunks = 0 if arguments.no_chunks else None
    return Contract(chunk_batch=chunks, padding=not arguments.no_padding, batch=arguments.batch)


def observed(path: Path, arguments: argparse.Namespace, talk: Talk) -> InputObserver:
    """Return what was seen of the model, or of its part, that a file was made of.

    Raises:
        ExportCompatError: the file does not say which model that was, or the model cannot be loaded or run.
    """
    made = _made(path)
    name = arguments.model or made.source
    if not name:
        raise ExportCompatError(f"{path} does not say which model it was made of; give --model FOLDER")
    if not arguments.model:
        _check_there(path, made)
    talk("load ...")
    source = find_source(name, trust=arguments.trust_remote_code, revision="" if arguments.model else made.revision)
    task = f"{made.task}{WITH_PAST}" if made.task and made.without_cache else made.task
    loaded = load(source, arguments.task or task or None, given_of(arguments), made.dtype or None)
    notes(loaded, talk)
    if not loaded.task.generates and arguments.inputs is None:
        loaded = _taken(loaded, path, made.inputs, talk)
    talk("observe ...")
    with apply_patches():
        return _observer(loaded, made.part, made.without_cache)


def _taken(loaded: Loaded, path: Path, inputs: tuple[str, ...], talk: Talk) -> Loaded:
    """Return what was loaded, with the inputs that a file of others takes, and without those that it does not take."""
    known = [re.sub(r"\W", "_", name) for name in inputs]
    loaded = replace(loaded, inputs=[completed(loaded.model, call, known) for call in loaded.inputs])
    left = [name for name in loaded.inputs[0] if not any(f"{other}_".startswith(f"{name}_") for other in known)]
    left = [name for name in left if hasattr(loaded.inputs[0][name], "shape")]
    if not left or len(left) == len(loaded.inputs[0]):
        return loaded
    talk(f"  run without {', '.join(left)}, which {path.name} does not take")
    calls = [{name: value for name, value in call.items() if name not in left} for call in loaded.inputs]
    return replace(loaded, inputs=calls)


def _made(path: Path) -> _Made:
    file = open_file(path)
    known = file.metadata
    names = ("source", "revision", "task", "dtype", "part", OBSERVED, NO_CACHE)
    values = {name: known.get(f"{PREFIX}{name}", "") for name in names}
    return _Made(**{**values, "part": values["part"] or _PARTS.get(path.stem, "")}, inputs=tuple(file.inputs))


def _check_there(path: Path, made: _Made) -> None:
    """Refuse a folder that is gone: the hub may have another model of its name.

    Raises:
        ExportCompatError: it is.
    """
    if not made.revision and not Path(made.source).is_dir():
        raise ExportCompatError(
            f"{path} was made of the folder {made.source!r}, which is not there any more; give --model FOLDER"
        )


def _observer(loaded: Loaded, part: str, refusal: NoCacheError | None) -> InputObserver:
    """Run the model, and return what was seen of it, or of the part of an encoder-decoder that a file holds.

    Raises:
        ExportCompatError: it does not run on its inputs.
    """
    inputs = loaded.inputs if len(loaded.inputs) > 1 else loaded.inputs[0]
    try:
        if part:
            return observe_encoder_decoder(loaded.model, inputs, refusal)[part][1]
        if refusal is not None:
            return observe_whole_texts(loaded.model, inputs, refusal)
        return observe(loaded.model, inputs, generate=loaded.task.generates)
    except ExportCompatError:
        raise
    except Exception as error:
        # The code of a model raises exceptions of any class.
        raise ExportCompatError(
            f"{loaded.source.name!r} does not run on {facts(loaded.inputs)}: {first_line(error)}; give --inputs"
        ) from error
