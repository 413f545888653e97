"""Which models there are: every type that an auto class of the installed transformers lists, by task."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from exportcompat._extras import require
from exportcompat._sample_inputs import TASKS

_FIRST = (
    "text-generation-with-past",
    "text2text-generation-with-past",
    "automatic-speech-recognition-with-past",
    "image-text-to-text-with-past",
    "fill-mask",
    "image-classification",
    "object-detection",
    "semantic-segmentation",
    "depth-estimation",
    "audio-classification",
    "ctc",
    "time-series-prediction",
)
"""What is run before the rest: the tasks that most people export for, in this order."""
_LAST = ("pretraining", "feature-extraction")
"""What is run after the rest: most of these types have a task of their own."""

_PAIR = "image-to-text-with-past"
"""A task whose class is that of another one too, which has most of the types."""


@dataclass(frozen=True)
class Entry:
    """A model type for a task.

    Attributes:
        task: a name of `TASKS`, or the auto class where none of these has it.
        auto: the auto class that lists the type.
        model_type: as in a `config.json`.
        architecture: the class that the auto class has for it.
    """

    task: str
    auto: str
    model_type: str
    architecture: str

    @property
    def name(self) -> str:
        """What a result is kept under."""
        return f"{self.task}/{self.model_type}"


def entries() -> list[Entry]:
    """Return every model type of every auto class, a class of models once, in the order in which they are run.

    Where a type has two classes for a task, the second is under the name of its auto class.
    """
    transformers = require("transformers", "transformers")
    found: dict[str, Entry] = {}
    for entry in sorted(_all(transformers), key=_place):
        found.setdefault(f"{entry.model_type}/{entry.architecture}", entry)
    named: dict[str, Entry] = {}
    for entry in found.values():
        own = replace(entry, task=entry.auto) if entry.name in named else entry
        named[own.name] = own
    return list(named.values())


def _place(entry: Entry) -> tuple[int, str, str, int]:
    rank = _FIRST.index(entry.task) if entry.task in _FIRST else len(_FIRST) + (entry.task in _LAST)
    autos = TASKS.get(entry.task, (entry.auto,))
    return rank, entry.task, entry.model_type, autos.index(entry.auto)


def _all(transformers: Any) -> Iterator[Entry]:
    # Names alone: to ask for classes would import every model.
    tasks = {auto: task for task, autos in reversed(list(TASKS.items())) if task != _PAIR for auto in autos}
    for auto in sorted(name for name in dir(transformers) if name.startswith("Auto")):
        table = getattr(getattr(transformers, auto), "_model_mapping", None)
        for model_type, names in getattr(table, "_model_mapping", {}).items():
            for architecture in [names] if isinstance(names, str) else list(names)[:1]:
                if architecture:
                    yield Entry(tasks.get(auto, auto), auto, model_type, architecture)
