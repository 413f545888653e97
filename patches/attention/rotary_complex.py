"""Queries and keys are turned by complex numbers, of which ONNX has none.

Symptom: Llama 4, DeepSeek-V2: `No decompositions registered for the complex-valued input`.
With torch 2.13 and onnxscript 0.7.2, where `torch-onnx-missing-operators` moves complex numbers, a program of
`torch.export` still multiplies them, which few other runtimes can.
Cause: `torch.polar`, `view_as_complex` and their product, in axes that the exporter cannot add to a complex tensor.
What is done: while it is traced, a complex number is a pair of real ones.
Can go: when torch's exporter takes complex numbers apart by itself.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants


def patch_apply_rotary_emb(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute queries and keys with pairs in place of complex factors while they are traced."""

    def apply_rotary_emb(xq: Any, xk: Any, freqs_cis: Any) -> Any:
        import torch

        from exportcompat.patches.toolkit.tracing import is_traced

        if not is_traced(xq):
            return original(xq, xk, freqs_cis)
        from ._complex_as_pairs import AsPairs, Pairs

        with AsPairs():
            return original(xq, xk, Pairs(torch.view_as_real(freqs_cis)))

    return apply_rotary_emb


_LLAMA4 = "transformers.models.llama4.modeling_llama4:apply_rotary_emb"
_DEEPSEEK = "transformers.models.deepseek_v2.modeling_deepseek_v2:apply_rotary_emb"


SPECS = variants(
    {
        "id": "rotary-complex",
        "replacement": f"{__name__}:patch_apply_rotary_emb",
        "reason": "Queries and keys are turned by complex numbers, of which ONNX has none: no graph.",
        "kind": "wrap",
    },
    {
        # Before, Llama 4 makes masks of chunks by questions on data.
        "transformers>=4.53,<4.54": {
            "targets": (_LLAMA4,),
            "upstream": (source("models/llama4/modeling_llama4.py", "v4.53.3"),),
            "proofs": ("llama4",),
        },
        "transformers>=4.54": {
            "targets": (_LLAMA4, _DEEPSEEK),
            "upstream": (source("models/deepseek_v2/modeling_deepseek_v2.py", "v5.23.0"),),
        },
    },
)
