"""BEiT keeps an index for each size of an image that it has seen, and looks it up with the sizes of a graph.

Symptom: a model that was called before is exported with the index of that call: other sizes of images stop in ONNX
Runtime, or are wrong.
Cause: a dictionary whose keys are heights and widths. A size of a graph is equal to the sample's while it is traced.
What is done: while it is traced, the index is made anew, in the graph.
Can go: with transformers 4.48; from 4.49 on the function that makes the index is cached in eager mode alone.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec, Unchanged


class UncachedIndex(dict[Any, Any]):
    """Has no keys, and gives what was put in last: a size of a graph is not asked what it is equal to."""

    def keys(self) -> Any:
        return ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._last = value

    def __getitem__(self, key: Any) -> Any:
        return self._last


def patch_relative_position_bias(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward` of a relative position bias compute its index anew while it is traced."""
    from exportcompat.patches.toolkit.tracing import is_traced

    if original.__name__ != "forward":
        return Unchanged("it is not the `forward` that computes an index")

    def forward(self: Any, window_size: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(self.relative_position_bias_table):
            return original(self, window_size, *args, **kwargs)
        kept, self.relative_position_indices = self.relative_position_indices, UncachedIndex()
        try:
            return original(self, window_size, *args, **kwargs)
        finally:
            self.relative_position_indices = kept

    return forward


SPECS = (
    PatchingSpec(
        id="beit-relative-index",
        # By the word, because `torch-int-sizes` finds the same methods by another one.
        targets=("methods_using(transformers:relative_position_indices)",),
        replacement=f"{__name__}:patch_relative_position_bias",
        requires=("transformers>=4.45,<4.49", "torch>=2.6"),
        reason="BEiT looks up an index by sizes, and finds that of an earlier call: a graph for images of one size.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v4.48.3/src/transformers/models/beit/modeling_beit.py",
        ),
        proofs=("beit_called",),
        defect=(r"relative_position_indices\.keys\(\)",),
        kind="wrap",
    ),
)
