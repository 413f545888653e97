"""Positions in images, for models whose `forward` computes them where it is given none.

`get_rope_index` walks over tokens and sizes of images, which no graph can. So a call is stored with the positions
that its `forward` is about to compute, and the graph takes them, as it does where `generate` hands them over.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from exportcompat._extras import require
from exportcompat.patches.toolkit.cache_names import cache_of

POSITION_IDS = "position_ids"


def with_positions(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that is about to be made, with positions if its model would compute them.

    Args:
        model: has `get_rope_index`, or a `model` that has it; others compute no such positions.
        arguments: of `forward`, by name.

    Returns:
        The arguments, and `position_ids`, `(3, batch, sequence)`, int64, if there were none.
    """
    owner = next((item for item in (model, getattr(model, "model", None)) if hasattr(item, "get_rope_index")), None)
    if owner is None or arguments.get(POSITION_IDS) is not None or arguments.get("input_ids") is None:
        return dict(arguments)
    past: Any = cache_of(arguments)
    length = past.get_seq_length() if hasattr(past, "get_seq_length") else 0
    found = _later(owner, arguments["input_ids"], length) if length else _first(owner, arguments)
    return dict(arguments) if found is None else {**arguments, POSITION_IDS: found}


def _first(owner: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the positions of a call without a past; None if it lacks what they are computed from."""
    parameters = inspect.signature(owner.get_rope_index).parameters.values()
    given = {item.name: arguments[item.name] for item in parameters if arguments.get(item.name) is not None}
    if any(
        item.default is item.empty and item.name not in given for item in parameters if item.kind < item.VAR_KEYWORD
    ):
        return None
    return owner.get_rope_index(**given)[0]


def _later(owner: Any, tokens: Any, past: int) -> Any:
    """Return the positions that go on from the first call; None if it was made without images."""
    torch = require("torch", "torch")
    deltas = getattr(owner, "rope_deltas", None)
    if deltas is None:
        return None
    batch, new = tokens.shape
    along = torch.arange(past, past + new, device=tokens.device)
    # There is a number for each text; `generate` may have repeated the texts since.
    return (along + deltas.repeat_interleave(batch // deltas.shape[0], 0)).expand(3, batch, new).contiguous()
