"""ProphetNet takes its streams apart by `chunk`, and the optimizer of onnxscript stops at parts of a dynamic size.

Symptom: `Error during constant folding for node 'node_split' (::SplitToSequence)`, for whole texts.
Cause: `hidden_states.chunk(1 + self.ngram, dim=1)`: how many parts there are is known, and how long they are is not.
onnxscript asks for the value of the length, which is no constant.
What is done: while it is traced, each part is a slice. `export` refuses calls with a cache: upstream takes one token at
a time there.
Can go: when onnxscript leaves such a split alone.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec


def patch_attention_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of attention cut slices instead of chunks while it is traced."""
    import torch

    from exportcompat.patches.toolkit.function_modes import Override, run_under

    handlers = {torch.Tensor.chunk: lambda chunk, tensor, parts, dim=0: _slices(tensor, parts, dim)}
    return run_under(lambda: Override(handlers), original)


def _slices(tensor: Any, parts: int, axis: int) -> tuple[Any, ...]:
    """Return parts of equal length; the streams are all as long as the text."""
    size = tensor.shape[axis] // parts
    return tuple(tensor.narrow(axis, index * size, size) for index in range(parts))


SPECS = (
    PatchingSpec(
        id="prophetnet-streams",
        targets=("transformers.models.prophetnet.modeling_prophetnet:ProphetNetNgramSelfAttention.forward",),
        replacement=f"{__name__}:patch_attention_forward",
        requires=("transformers>=5.24", "torch>=2.6"),
        reason="ProphetNet takes streams of a dynamic length apart by a split at which onnxscript stops: no graph.",
        upstream=(source("models/prophetnet/modeling_prophetnet.py", "v5.24.0"),),
        proofs=("prophetnet",),
        defect=(r"\.chunk\(1 \+ self\.ngram",),
        kind="wrap",
    ),
)
