"""onnxscript's optimizer takes a number as small as 1e-8 for 0.

Symptom: `inf` and NaN in texts with padding, of models that normalize with `x * rsqrt(mean + 1e-8)` (Muse Spark, Muse
Glimmer): a token that sees none has a mean of 0, and the file divides by it.
Cause: the matcher of patterns compares constants with a tolerance of 1e-8 in all, so that the rule for `x + 0` takes
away `x + 1e-8`.
What is done: where a pattern has 0, no other number matches.
Can go: when the matcher of onnxscript compares with 0 exactly.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import variants


def patch_match_constant(original: Callable[..., Any]) -> Callable[..., Any]:
    """Match no number but 0 where a pattern has 0."""

    def _match_constant(self: Any, pattern_constant: Any, value: Any) -> Any:
        wanted, found = pattern_constant.value, value.const_value
        is_zero = isinstance(wanted, (int, float)) and wanted == 0
        if is_zero and found is not None and found.size == 1 and found.numpy().any():
            return self.fail(f"Constant value mismatch: expected {wanted}, got another number.")
        return original(self, pattern_constant, value)

    return _match_constant


SPECS = variants(
    {
        "id": "torch-onnx-small-constants",
        "replacement": f"{__name__}:patch_match_constant",
        "reason": "The optimizer takes 1e-8 for 0 and drops what is added to a variance: NaN for padded texts.",
        "upstream": ("https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/_matcher.py",),
        "proofs": ("steadied_gpt",),
        "kind": "wrap",
    },
    {
        ("torch>=2.6", "onnxscript<0.2.6"): {
            "targets": ("onnxscript.rewriter.pattern:SimplePatternMatcher._match_constant",),
        },
        ("torch>=2.6", "onnxscript>=0.2.6"): {
            "targets": ("onnxscript.rewriter._matcher:SimplePatternMatcher._match_constant",),
        },
    },
)
