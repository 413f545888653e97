"""GPT-2 makes a mask for its encoder's states from those of the call, and a graph is given those that are new alone.

Symptom: `The size of tensor a must match the size of tensor b` in the cross-attention of a GPT-2 that was joined with
an encoder, as in image captioning (`VisionEncoderDecoderModel`).
Cause: these releases drop the mask of the encoder (`encoder_attention_mask = None`), so a mask without any padding is
made, as long as the states that the call has. In a graph those in the cache come in front of them.
What is done: while it is traced, there is no such mask, as in eager mode, where all of it is true.
Can go: with transformers 5.15; 5.16 makes it from the mask that the model is given.
"""

import functools
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_create_bidirectional_mask(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `create_bidirectional_mask` do without a mask where none is given and it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    # The arguments are handed over by name, as the one caller does it.
    @functools.wraps(original)
    def create_bidirectional_mask(*args: Any, **kwargs: Any) -> Any:
        states, mask = kwargs.get("encoder_hidden_states"), kwargs.get("attention_mask")
        return None if mask is None and is_traced(states) else original(*args, **kwargs)

    return create_bidirectional_mask


SPECS = (
    PatchingSpec(
        id="gpt2-cross-mask",
        targets=("transformers.models.gpt2.modeling_gpt2:create_bidirectional_mask",),
        replacement=f"{__name__}:patch_create_bidirectional_mask",
        requires=("transformers>=5.2,<5.16", "torch>=2.6"),
        reason="A mask of an encoder's states is as long as those of the call: no graph of a joined GPT-2.",
        upstream=(
            source("models/gpt2/modeling_gpt2.py", "v5.6.0"),
            source("models/gpt2/modeling_gpt2.py", "v5.16.1"),
        ),
        proofs=("joined_gpt2",),
        kind="wrap",
    ),
)
