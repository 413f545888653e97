"""Arguments that models of some types want in a form of their own, from what `rules.toml` says of them."""

import inspect
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from exportcompat._extras import require

from ._catalogue import Entry
from ._small_config import rules

_TOKENS = 64
"""Made-up tokens are less than this: those that stand for something come after them, mostly."""


def beside(model: Any, entry: Entry) -> dict[str, Any]:
    """Return the values by argument that a type, or one for a task, wants instead of what is made up or beside it."""
    inputs: Mapping[str, Mapping[str, Mapping[str, Any]]] = rules()["inputs"]
    said = {**inputs.get(entry.model_type, {}), **inputs.get(entry.name, {})}
    known = inspect.signature(model.forward).parameters
    return {
        name: form["constant"] if "constant" in form else _tensor(model, form)
        for name, form in said.items()
        if name in known
    }


def _tensor(model: Any, form: Mapping[str, Any]) -> Any:
    """Return a tensor: its values, or those of a shape.

    `first` is a field with a token and how many begin with it, and `last` one with how many end with it.
    """
    torch = require("torch", "torch")
    if "values" in form:
        return torch.tensor(form["values"])
    shape, kind, generator = form["shape"], form.get("of", "floats"), torch.Generator().manual_seed(0)
    if kind == "ones":
        return torch.ones(shape, dtype=torch.int64)
    if kind == "booleans":
        return torch.ones(shape, dtype=torch.bool)
    if kind == "floats":
        return torch.rand(shape, generator=generator)
    found = torch.randint(3, _TOKENS, shape, generator=generator)
    for name in {"first", "last"} & form.keys():
        field, count = form[name]
        found[:, slice(count) if name == "first" else slice(-count, None)] = attrgetter(field)(model.config)
    return found
