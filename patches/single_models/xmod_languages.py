"""X-MOD splits a batch by how many neighbours are of one language, which is data.

Symptom: `Could not guard on data-dependent expression Eq(u0, 0)`.
Cause: `torch.unique_consecutive(lang_ids)` in `lang_adapter`, and a loop over the languages that the sample has.
What is done: while it is traced, each language's adapter takes the texts of that language, of which there may be none.
Can go: with transformers 4.57; from 5.0.0 on upstream does so itself.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import TORCH, source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_lang_adapter(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `lang_adapter` of an output layer pick the texts of each language while it is traced."""

    def traced(self: Any, lang_ids: Any, hidden_states: Any) -> Any:
        normed = _normed(self, hidden_states)
        adapted = normed.new_zeros(normed.shape)
        for number, adapter in enumerate(self.adapter_modules.values()):
            of_language = lang_ids == number
            adapted[of_language] = adapter(normed[of_language])
        return self.dropout(adapted) + (normed if self.ln_before_adapter else hidden_states)

    return when_traced(original, traced)


def _normed(layer: Any, hidden: Any) -> Any:
    if layer.adapter_layer_norm is not None:
        return layer.adapter_layer_norm(hidden)
    return layer.LayerNorm(hidden) if layer.adapter_reuse_layer_norm else hidden


SPECS = (
    PatchingSpec(
        id="xmod-languages",
        targets=("transformers.models.xmod.modeling_xmod:XmodOutput.lang_adapter",),
        replacement=f"{__name__}:patch_lang_adapter",
        requires=("transformers>=4.44,<5.0", TORCH),
        reason="X-MOD splits a batch by the languages of its texts, which are data: no graph.",
        upstream=(source("models/xmod/modeling_xmod.py", "v4.57.6"),),
        proofs=("xmod",),
        defect=(r"torch\.unique_consecutive",),
        kind="wrap",
    ),
)
