"""LED's decoder hides nothing from a single token, and a graph hides padding from it, too.

Symptom: off by 0.2 to 3 in calls of one token behind a cache, if the mask of the decoder has padding.
Cause: `if input_shape[-1] > 1`: without a mask, padding is seen; the answer of the sample stays in the graph.
What is done: while it is traced, the mask of the decoder has no padding where a call has one token. Which it has is
computed. The numbers are those of upstream, which sees padding there.
Can go: when upstream makes its mask for any number of tokens.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

_QUESTION = "input_shape[-1] > 1"


def patch_decoder_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of the decoder take a mask without padding where a call has one token."""
    from exportcompat.patches.toolkit.decisions import mended
    from exportcompat.patches.toolkit.wrapping import when_traced

    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        given = call.arguments
        if given.get("attention_mask") is not None:
            given["attention_mask"] = _seen(given["attention_mask"], _tokens(given))
        with mended(_QUESTION):
            return original(*call.args, **call.kwargs)

    return when_traced(original, traced)


def _tokens(given: dict[str, Any]) -> Any:
    tokens = given.get("input_ids")
    return given["inputs_embeds"].shape[1] if tokens is None else tokens.shape[-1]


def _seen(mask: Any, tokens: Any) -> Any:
    """Return `mask`, `(batch, total)`, with ones alone for one token."""
    import torch

    # torch takes a size for 2 or more and would answer by itself; a tensor is compared in the file.
    is_single = torch.full((), tokens, dtype=torch.int64, device=mask.device) == 1
    return torch.where(is_single, torch.ones_like(mask), mask)


SPECS = (
    PatchingSpec(
        id="led-decoder-mask",
        targets=("transformers.models.led.modeling_led:LEDDecoder.forward",),
        replacement=f"{__name__}:patch_decoder_forward",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="LED's decoder makes a mask for several tokens alone, by an if: wrong numbers for one.",
        upstream=(source("models/led/modeling_led.py", "v5.24.0"),),
        proofs=("led_decoder",),
        defect=(r"if input_shape\[-1\] > 1",),
        kind="wrap",
    ),
)
