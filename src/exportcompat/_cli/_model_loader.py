"""Load a model of transformers from a folder or the hub: what the command line needs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import first_line
from exportcompat._sample_inputs import Given, InputMaker, Processors, Task, check_given, check_task, task_of
from exportcompat.registry import ExportCompatError

from ._model_folder import near_folders, resolve

_ON_THE_HUB = "; there is no such folder here, so it was taken for a name of the hub"


@dataclass(frozen=True)
class Source:
    """Where a model is.

    Attributes:
        name: the absolute path of a folder, or the name of a repository of the hub.
        revision: of the repository; empty for a folder.
        config: its configuration.
        options: keyword arguments of `from_pretrained`.
    """

    name: str
    revision: str
    config: Any
    options: dict[str, Any]


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to be observed.

    Attributes:
        model: in evaluation mode.
        task: what it is loaded for.
        inputs: keyword arguments to run it with, one dict or several of different sizes.
        notes: what of the folder could not be used, and why.
        source: where it is from.
    """

    model: Any
    task: Task
    inputs: list[dict[str, Any]]
    notes: list[str]
    source: Source


def find_source(name: str, *, trust: bool = False, revision: str = "") -> Source:
    """Read the configuration of a model; nothing else of it is loaded.

    Args:
        name: a folder, or the name of a repository of the hub.
        trust: run code of the repository.
        revision: of the repository; empty for the newest.

    Raises:
        ExportCompatError: it is neither, or cannot be read.
        MissingExtraError: transformers is not installed.
    """
    found = resolve(name)
    transformers = require("transformers", "transformers")
    options: dict[str, Any] = {"trust_remote_code": trust, **({"revision": revision} if revision else {})}
    config = _loading(name, lambda: transformers.AutoConfig.from_pretrained(found, **options))
    commit = revision or getattr(config, "_commit_hash", None) or ""
    is_folder = Path(found).is_dir()
    return Source(found, "" if is_folder else commit, config, options)


def load(source: Source, task: str | None = None, given: Given | None = None, dtype: str | None = None) -> Loaded:
    """Load a model and make inputs for it.

    Args:
        source: where it is.
        task: one of `TASKS`; None for the one that fits the architecture in the configuration.
        given: what to run it on.
        dtype: of the weights; None for what the folder says.

    Raises:
        ExportCompatError: the model cannot be loaded, or there is no way to make inputs for it here.
    """
    transformers = require("transformers", "transformers")
    given = given or Given()
    check_task(task)
    check_given(given)
    chosen = task_of(transformers, source.config, source.name, task)
    loader = getattr(transformers, chosen.loader)
    model = _loading(source.name, lambda: loader.from_pretrained(source.name, **source.options)).eval()
    if dtype:
        model = model.to(getattr(require("torch", "torch"), dtype))
    processors = Processors(transformers, source.name, source.options)
    calls = InputMaker(model, chosen, processors, given, source.name).make()
    floating = next((item.dtype for item in model.parameters() if item.is_floating_point()), None)
    calls = [{name: _cast(value, floating) for name, value in call.items()} for call in calls]
    return Loaded(model, chosen, calls, processors.notes, source)


def _cast(value: Any, dtype: Any) -> Any:
    """Return a tensor of floats in the type of the weights; anything else as it is."""
    is_floating = hasattr(value, "is_floating_point") and value.is_floating_point()
    return value.to(dtype) if is_floating and dtype is not None else value


def _loading(name: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:
        # transformers, its hub client and safetensors raise exceptions of many classes for what cannot be read.
        hint = "" if Path(name).exists() else f"{_ON_THE_HUB}{near_folders(name)}"
        if "trust_remote_code" in str(error):
            hint = "; it has code of its own: read it, and pass --trust-remote-code if it may run"
        raise ExportCompatError(f"cannot load {name!r}: {first_line(error)}{hint}") from error
