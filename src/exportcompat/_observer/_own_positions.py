"""Positions that a model makes of its tokens itself, and that are not 0, 1, 2, ..."""

from inspect import Signature
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._extras import require
from exportcompat.patches.toolkit.cache_names import cache_name
from exportcompat.patches.toolkit.module_state import preserved

from ._embedded_tokens import TOKENS
from ._record import Record, take_result
from ._rope_index import POSITION_IDS


def has_own_positions(model: Any, method: str, signature: Signature, record: Record) -> bool:
    """Say whether a model that was called without positions has others than those from 0 on, as Kosmos-2.5 has.

    It is called once more with those; a model that refuses them is taken to have them.

    Args:
        model: the module.
        method: name of the method.
        signature: of the method.
        record: the first call; nothing is known of one that goes on from a cache.
    """
    given = record.inputs
    cache = f"{cache_name(given.trees)}."
    has_past = any(path.startswith(cache) and tensor.numel() for path, tensor in given.tensors.items())
    is_left_out = POSITION_IDS in signature.parameters and POSITION_IDS not in given.trees
    if not is_left_out or TOKENS not in given.tensors or has_past:
        return False
    torch = require("torch", "torch")
    tokens = given.tensors[TOKENS]
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape[0], -1).contiguous()
    try:
        with torch.no_grad(), apply_patches(), preserved(model):
            arguments = {**given.arguments(), POSITION_IDS: positions}
            found = take_result(getattr(model, method)(**arguments))
    except Exception:
        # Models raise exceptions of any class for what they do not take.
        return False
    return not _alike(found.tensors, record.outputs.tensors)


def _alike(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Say whether the first results of two calls are alike, as far as both have them: the last tokens."""
    torch = require("torch", "torch")
    name = next(iter(wanted))
    one, other = found.get(name), wanted[name]
    if one is None or one.dim() < 2 or one.dtype != other.dtype:
        return True
    count = min(one.shape[1], other.shape[1])
    return bool(torch.allclose(one[:, -count:], other[:, -count:], rtol=1e-3, atol=1e-4, equal_nan=True))
