"""Build a model of a type, tiny, with random weights that make outputs large enough to tell."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from exportcompat._extras import require
from exportcompat._sample_inputs import TASKS, Call, Given, InputMaker, Processors, Task
from exportcompat.registry import ExportCompatError

from ._arguments import beside
from ._catalogue import Entry, entries
from ._small_config import WIDTHS, of_release, small_config

_SEED = 0
_LARGEST = 150_000_000
"""Parameters of a model that is run at all."""
_SPREAD = 0.05
"""Of what replaces weights that are all the same, or that nothing has initialised."""
_OF_TEXTS = (
    "text-generation-with-past",
    "fill-mask",
    "text-classification",
    "token-classification",
    "question-answering",
    "multiple-choice",
)


@dataclass(frozen=True)
class Built:
    """A model that runs.

    Attributes:
        model: in evaluation mode, float32.
        calls: keyword arguments that it runs on.
        width: the set of rules by which it was made small.
        task: what it is for.
        parameters: how many it has.
    """

    model: Any
    calls: list[Call]
    width: str
    task: Task
    parameters: int


class NotBuiltError(Exception):
    """No set of rules makes a model of the type that runs; the message says of each why."""


def build(entry: Entry, fields: Mapping[str, Any] | None = None) -> Built:
    """Return a model of a type that runs on inputs made for it.

    Args:
        entry: the type.
        fields: of its small configuration, to be others.

    Raises:
        NotBuiltError: there is none.
    """
    reasons = []
    for width in WIDTHS:
        stage = "configuration"
        try:
            config = _changed(small_config(entry.model_type, width, entry.task), fields or {})
            stage = "model"
            model = _model(entry, config)
            stage = "inputs"
            calls, task = _calls(entry, model)
            stage = "forward"
            _run(model, calls)
        except Exception as error:
            # Configurations and models raise exceptions of any class for what does not fit together.
            reasons.append(f"{width}, {stage}: {type(error).__name__}: {_words(error)}")
            continue
        count = sum(item.numel() for item in model.parameters())
        return Built(model, calls, width, task, count)
    raise NotBuiltError(" | ".join(reasons))


def _changed(config: Any, fields: Mapping[str, Any]) -> Any:
    """Return a configuration with other fields."""
    for name, value in of_release(config, fields).items():
        setattr(config, name, value)
    return config


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:400]


def _model(entry: Entry, config: Any) -> Any:
    torch, transformers = require("torch", "torch"), require("transformers", "transformers")
    kind = getattr(transformers, entry.architecture)
    config = _fitting(kind, config)
    count = _parameters(kind, config)
    if count > _LARGEST:
        raise NotBuiltError(f"{count:,} parameters are too many; rules.toml has no rule that makes it small")
    torch.manual_seed(_SEED)
    model = kind._from_config(config) if hasattr(kind, "_from_config") else kind(config)
    model = model.float().eval()
    _fill(model)
    return model


def _parameters(kind: Any, config: Any) -> int:
    """Return how many parameters a model has; 0 for one that reads its weights while it is made (Apertus, in 4.57)."""
    torch = require("torch", "torch")
    try:
        with torch.device("meta"):
            return sum(item.numel() for item in kind(config).parameters())
    except NotImplementedError:
        return 0


def _fitting(kind: Any, config: Any) -> Any:
    """Return the configuration, or the one in it, that a class of models takes."""
    wanted = getattr(kind, "config_class", None)
    if wanted is None or isinstance(config, wanted):
        return config
    inner = [value for value in vars(config).values() if isinstance(value, wanted)]
    return inner[0] if inner else config


def _fill(model: Any) -> None:
    """Give random numbers to weights that are all 0 or no numbers: a graph without them would be right too.

    So too to the rows of padding: its token is one like others here, and of nothing but zeros all scores are equal.
    """
    torch = require("torch", "torch")
    with torch.no_grad():
        for table in (module for module in model.modules() if isinstance(module, torch.nn.Embedding)):
            if table.padding_idx is not None:
                table.weight[table.padding_idx].normal_(0.0, _SPREAD)
        for weight in _weights(model):
            is_odd = not bool(torch.isfinite(weight).all()) or float(weight.abs().max()) > 1e4
            if is_odd or not bool(weight.any()):
                weight.normal_(0.0, _SPREAD)


def _weights(model: Any) -> Iterator[Any]:
    yield from (weight for weight in model.parameters() if weight.is_floating_point() and weight.numel())


def _calls(entry: Entry, model: Any) -> tuple[list[Call], Task]:
    task = Task(entry.task, entry.auto) if entry.task in TASKS else Task("feature-extraction", entry.auto)
    more = beside(model, entry)
    maker = InputMaker(model, task, Processors(None, "", {}), Given(), entry.model_type, more)
    try:
        calls = maker.make()
    except Exception:
        if entry.task not in _OF_TEXTS:
            raise
        # A model of texts that takes images besides does without them too.
        calls = [maker.make_text()]
    if not calls:
        raise ValueError("`forward` takes no text, image, sound or series by a name that is known")
    return calls, task


def _run(model: Any, calls: list[Call]) -> None:
    """Run eager; an encoder-decoder that generates is run by `generate`."""
    torch = require("torch", "torch")
    is_whole = getattr(model.config, "is_encoder_decoder", False)
    with torch.no_grad():
        for call in calls:
            if is_whole and model.can_generate():
                model.generate(**call, max_new_tokens=2)
            else:
                model(**call)


def build_type(task: str, model_type: str, fields: Mapping[str, Any] | None = None) -> Any:
    """Return the model of a type for a task, tiny, as `build` makes it.

    Args:
        task: a name of `TASKS`.
        model_type: as in a `config.json`.
        fields: of its small configuration, to be others.

    Raises:
        ExportCompatError: the installed transformers has no such type, or none that can be built.
    """
    found = [entry for entry in entries() if (entry.task, entry.model_type) == (task, model_type)]
    if not found:
        raise ExportCompatError(f"the installed transformers has no {model_type!r} for {task}")
    try:
        return build(found[0], fields).model
    except NotBuiltError as error:
        raise ExportCompatError(f"{model_type!r} cannot be built: {error}") from error
