"""Doge hands its mask to a kernel that was to be causal by itself, and tokens of a prompt see those behind them.

Symptom: in eager mode, and so in the calls that `export` observes, a prompt without padding has other logits than
beside a padded text, by 4 to 9. The graph has the mask, so it is called wrong.
Cause: `create_causal_mask` makes no mask for sdpa where nothing is padded; Doge's attention then adds what it has
computed to nothing, and hands over a mask that hides nothing.
What is done: inside the scope the mask is always made, in eager mode. A trace is as before: it has the mask.
Can go: with transformers 5.17; from 5.18.0 on the model asks for the mask itself (`allow_is_causal_skip=False`).
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced

_MODULE = "transformers.models.doge.modeling_doge"


def patch_create_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that creates masks never leave its mask out."""
    signature = inspect.signature(original)

    # Callers name the embeddings and the cache as their release does, so arguments are passed on as they come.
    def create_mask(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        # With a rule of the caller's, transformers makes the mask whatever it hides.
        if given.arguments.get("and_mask_function") is None:
            given.arguments["and_mask_function"] = _everything
        return original(*given.args, **given.kwargs)

    return when_traced(create_mask, original)


def _everything(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """Allow every key for every query, as a rule that is joined with the model's own."""
    return key >= 0


SPECS = variants(
    {
        "id": "doge-mask",
        "targets": (f"{_MODULE}:create_causal_mask", f"{_MODULE}:create_sliding_window_causal_mask"),
        "replacement": f"{__name__}:patch_create_mask",
        "reason": "Doge has no mask in a prompt without padding: in eager mode its tokens see those behind them.",
        "upstream": (source("models/doge/modeling_doge.py", "v4.57.6"),),
        "kind": "wrap",
    },
    # Between them the defect is the same; what makes the masks is not, and was not run.
    {"transformers>=4.57,<5.0": {}, "transformers>=5.15,<5.18": {}},
)
