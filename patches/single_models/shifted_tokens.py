"""Of a batch of one, the tokens that a text is shifted by are squeezed to one number, and of others they are not.

Symptom: PLBart and mBART without `decoder_input_ids`, as `PLBartForSequenceClassification`: ONNX Runtime stops at
a batch of one (`Unsqueeze`, `axis 1 is not in valid range`), where the sample's batch was larger.
Cause: `gather(1, index_of_eos).squeeze()` in `shift_tokens_right`, which ONNX answers by the size that a call has.
What is done: while it is traced, the last axis alone is squeezed, whatever the batch is.
Can go: when upstream names the axis.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_shift_tokens_right(original: Callable[..., Any]) -> Callable[..., Any]:
    """Squeeze the last axis of the tokens of the ends of texts, `(batch, 1)`, and no other one."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override

    def traced(input_ids: Any, pad_token_id: int) -> Any:
        with Override({torch.Tensor.squeeze: lambda squeeze, tensor: squeeze(tensor, -1)}):
            return original(input_ids, pad_token_id)

    return when_traced(original, traced)


SPECS = variants(
    {
        "id": "shifted-tokens",
        "targets": tuple(
            f"transformers.models.{name}.modeling_{name}:shift_tokens_right" for name in ("mbart", "plbart")
        ),
        "replacement": f"{__name__}:patch_shift_tokens_right",
        "reason": "Tokens of a batch are squeezed to a number if the batch is one: files stop at that.",
        "upstream": (source("models/plbart/modeling_plbart.py", "v5.23.0"),),
        "proofs": ("plbart_classes", "mbart_classes"),
        "kind": "wrap",
    },
    {"transformers>=4.57": {}},
)
