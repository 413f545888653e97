"""The optimizer joins a rotation by positions that all rows share into an operator that wants positions of each row.

Symptom: `Inputs 'cos_cache' and 'sin_cache' are expected to have the same shape as input 'x', got 1 and 7`, when a file
of opset 23 is run, for every batch but 1: models that are called without `position_ids`, such as classifiers and models
of embeddings with a rope.
Cause: such a model makes its positions of the length alone, `(1, sequence)`. A product broadcasts them;
`RotaryEmbedding` does not, and the rule never looks at the sizes.
What is done: where the rows of positions are not known to be those of the batch, cosines and sines are expanded to it.
Can go: when onnxscript's rule compares the sizes.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_RANK = 3
"""Of the angles: rows, positions, half of the size of a head."""


def patch_opset_23_fuse(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the fusions begin with a rule that puts `RotaryEmbedding` in and expands what all rows share."""

    def opset_23_fuse(model: Any, *, debug: bool = False) -> Any:
        from onnxscript.rewriter import _fusion_utils, pattern

        # A rule keeps the methods that its class has when onnxscript is imported: replacing those has no effect.
        _fusion_utils.apply_fusion_rules(pattern.RewriteRuleSet([_expanding_rule()]))(model, debug=debug)
        return original(model, debug=debug)

    return opset_23_fuse


def _expanding_rule() -> Any:
    from onnxscript.rewriter import pattern
    from onnxscript.rewriter.rules.fusion._rotary_embedding import RotaryEmbedding23Fusion

    class Expanding(RotaryEmbedding23Fusion):  # type: ignore[misc]
        """Puts `RotaryEmbedding` in, with a row of cosines and sines for each of the batch."""

        def check(self, op: Any, **values: Any) -> Any:
            shape = values["freqs"].shape
            if shape is None or len(shape) != _RANK:
                return pattern.MatchResult().fail("The angles are not known to have rows, positions and halves.")
            return super().check(op, **values)

        def rewrite(self, op: Any, x: Any, freqs: Any, **values: Any) -> Any:
            if _is_known(freqs.shape[0]) and freqs.shape[0] == x.shape[0]:
                return super().rewrite(op, x, freqs, **values)
            rows = op.Concat(op.Shape(x, start=0, end=1), op.Constant(value_ints=[1, 1]), axis=0)
            tables = [op.Expand(made, rows) for made in (op.Cos(freqs), op.Sin(freqs))]
            return op.RotaryEmbedding(x, *tables, interleaved=0, num_heads=x.shape[1])

    return Expanding.rule()


def _is_known(size: Any) -> bool:
    """Say whether a size is a number or has a name; a size without one is equal to nothing."""
    return isinstance(size, int) or getattr(size, "value", None) is not None


SPECS = (
    PatchingSpec(
        id="torch-onnx-rotary-batch",
        targets=("onnxscript.rewriter.onnx_fusions._onnx_fusions:_opset_23_fuse",),
        replacement=f"{__name__}:patch_opset_23_fuse",
        requires=("torch>=2.6", "onnxscript>=0.5.3"),
        reason="Positions that all rows share go into an operator that wants them of each: a file for one row alone.",
        upstream=(
            "https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/rules/fusion/_rotary_embedding.py",
        ),
        proofs=("llama_embedding_export",),
        kind="wrap",
    ),
)
