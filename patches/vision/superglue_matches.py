"""SuperGlue asks whether any image of a call has keypoints.

Symptom: `Could not guard on data-dependent expression Eq(u0, 0)`.
Cause: `if keypoints.shape[2] == 0` in `_match_image_pair`; how many keypoints SuperPoint has found is data.
What is done: while it is traced, images without a keypoint get one that is masked while they are matched, and lose it
again. Where there are keypoints, nothing is added. `hidden_states` and `attentions`, on request, are those of the
masked one then; eager has none.
Can go: when upstream matches no keypoints as it does some.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec

_BY_KEYPOINT = ("keypoints", "descriptors", "scores", "mask")
"""Arguments that have an axis of keypoints, the third one."""


def patch_match_image_pair(original: Callable[..., Any]) -> Callable[..., Any]:
    """Match some keypoints and none alike while they are traced."""
    import torch

    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        keypoints = given["keypoints"]
        count = keypoints.shape[2]
        rows = torch.arange(count + 1, device=keypoints.device)
        kept = (rows < torch.full((), count, device=rows.device).clamp(min=1)).nonzero().squeeze(1)
        torch._check(kept.shape[0] >= 1)
        longer = {name: _with_one_more(given[name])[:, :, kept] for name in _BY_KEYPOINT if name in given}
        *found, states, attentions = original(**{**given, **longer})
        return (*(result[:, :, rows[:-1]] for result in found), states, attentions)

    return when_traced(original, traced)


def _with_one_more(tensor: Any) -> Any:
    """Return keypoints, or what is of these, `(pairs, 2, keypoints, ...)`, with a zero behind them."""
    import torch

    return torch.cat([tensor, tensor.new_zeros((*tensor.shape[:2], 1, *tensor.shape[3:]))], 2)


SPECS = (
    PatchingSpec(
        id="superglue-matches",
        targets=("transformers.models.superglue.modeling_superglue:SuperGlueForKeypointMatching._match_image_pair",),
        replacement=f"{__name__}:patch_match_image_pair",
        requires=("transformers>=4.53", "torch>=2.6"),
        reason="Whether there are keypoints, whose number is data, is asked in Python: no graph.",
        upstream=(source("models/superglue/modeling_superglue.py", "v5.24.0"),),
        proofs=("superglue",),
        kind="wrap",
    ),
)
