"""XLM and FlauBERT ask in Python whether texts are longer than the longest.

Symptom: `Could not guard on data-dependent expression u0 <= 16`, for whole texts.
Cause: `assert lengths.max().item() <= slen`, in `forward` and in the function that makes masks. The second try of the
exporter, with `strict=True`, puts it into the graph; `torch.export` alone has none.
What is done: the lengths that the model counts itself, which are no larger than their text, are not asked for while it
is traced. Lengths that are given are refused with an error: a mask says the same, and is not asked.
Can go: when upstream asks for given lengths alone, or in the graph.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a model take for granted while it is traced that no text is longer than the longest."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override
    from exportcompat.patches.toolkit.wrapping import when_traced

    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> Any:
        if signature.bind(*args, **kwargs).arguments.get("lengths") is not None:
            raise ValueError(
                "spec 'xlm-length-check': `lengths` are compared with the text in Python, which a graph cannot do; "
                "pass `attention_mask`, with 0 behind each text, instead"
            )
        # Nothing else in it becomes a number.
        with Override({torch.Tensor.item: lambda item, tensor: 0}):
            return original(*args, **kwargs)

    return when_traced(original, traced)


SPECS = (
    PatchingSpec(
        id="xlm-length-check",
        targets=(
            "transformers.models.xlm.modeling_xlm:XLMModel.forward",
            "transformers.models.flaubert.modeling_flaubert:FlaubertModel.forward",
        ),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=4.54", "torch>=2.6"),
        reason="XLM and FlauBERT compare lengths of texts with their size in Python: no graph.",
        upstream=(source("models/xlm/modeling_xlm.py", "v5.24.0"),),
        proofs=("xlm_program", "flaubert_program"),
        defect=(r"lengths\.max\(\)\.item\(\)",),
        kind="wrap",
    ),
)
