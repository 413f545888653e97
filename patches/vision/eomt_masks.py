"""EoMT and EoMT-DINOv3 ask a buffer in Python whether a layer masks the attention of queries.

Symptom: `Could not guard on data-dependent expression Eq(u0, 1)`.
Cause: `if self.attn_mask_probs[layer] > 0`, and `if prob < 1` in `_disable_attention_mask`: while a graph is captured,
a buffer has no values.
What is done: while it is traced, each layer with queries has both, by `torch.cond` on the buffer: what the masks say,
which are predicted for that alone, or what the layer before had. ONNX has an `If`, which folds away since a buffer is a
constant. Between 0 and 1 eager draws queries at random that are not masked: nothing is equal to that, and the call
fails in ONNX Runtime with an index out of range.
Can go: when upstream keeps these numbers in Python.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Ask the buffer in the graph while it is traced."""
    from torch.nn.functional import interpolate

    from exportcompat.patches.toolkit.function_modes import Override

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        names, layers = vars(self), _Layers(self)
        # What stands in the instance hides the buffer and the methods, which stay where they are.
        names.update(
            attn_mask_probs=layers.shares,
            predict=layers.predict,
            _disable_attention_mask=lambda mask, **_: mask,
        )
        try:
            with Override({interpolate: layers.resize}):
                return original(self, *args, **kwargs)
        finally:
            for name in ("attn_mask_probs", "predict", "_disable_attention_mask"):
                del names[name]

    return when_traced(original, traced)


class _Share:
    """The share of queries that a layer masks, for which Python takes every layer that has any for one that masks."""

    def __gt__(self, other: Any) -> bool:
        return True


class _Layers:
    """The layers of a model with queries, from the first one on.

    Args:
        model: EoMT.

    Attributes:
        shares: what stands for the buffer.
    """

    def __init__(self, model: Any) -> None:
        self.shares = [_Share()] * model.config.num_blocks
        self._values = model.attn_mask_probs
        self._predict = model.predict
        self._states: list[Any] = []
        self._scores: Any = None
        self._queries = model.config.num_queries

    def predict(self, states: Any) -> tuple[Any, Any]:
        """Keep the states of a layer for `resize`; predict from those of the last one."""
        if len(self._states) == len(self.shares):
            return self._predict(states)  # type: ignore[no-any-return]
        self._states.append(states)
        return states, states

    def resize(self, interpolate: Callable[..., Any], masks: Any, size: Any, **more: Any) -> Any:
        """Return scores of queries for patches, `(batch, queries, rows, columns)`; what is above 0 is seen."""
        import torch

        if not self._states or masks is not self._states[-1]:
            return interpolate(masks, size=size, **more)
        share = self._values[len(self._states) - 1]

        def predicted(states: Any, before: Any) -> Any:
            # Looking up an index that is not there is an error of ONNX Runtime too.
            checked = states.new_zeros(1)[(share < 1).long()[None]]
            return interpolate(self._predict(states)[0], size=size, **more) + checked

        self._scores = torch.cond(share > 0, predicted, _before, (masks, self._last_scores(masks, size)))
        return self._scores

    def _last_scores(self, states: Any, size: Any) -> Any:
        """Return the scores of the layer before; the first one sees everything."""
        shape = (states.shape[0], self._queries, *size)
        return states.new_ones(shape) if self._scores is None else self._scores


def _before(states: Any, scores: Any) -> Any:
    # A branch may not return what it was given.
    return scores.clone()


_EOMT = "transformers.models.eomt.modeling_eomt:EomtForUniversalSegmentation.forward"
_DINOV3 = "transformers.models.eomt_dinov3.modeling_eomt_dinov3:EomtDinov3ForUniversalSegmentation.forward"

SPECS = variants(
    {
        "id": "eomt-masks",
        "replacement": f"{__name__}:patch_forward",
        "reason": "Whether the attention of queries is masked is asked of a buffer in Python: no graph.",
        "kind": "wrap",
    },
    {
        "transformers>=4.54,<5.1": {
            "targets": (_EOMT,),
            "upstream": (source("models/eomt/modeling_eomt.py", "v4.57.6"),),
            "proofs": ("eomt",),
        },
        "transformers>=5.1": {
            "targets": (_EOMT, _DINOV3),
            "upstream": (source("models/eomt/modeling_eomt.py", "v5.24.0"),),
            "proofs": ("eomt", "eomt_dinov3"),
        },
    },
)
