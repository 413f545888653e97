"""Patches are attended to in segments, one after the other, in a loop whose length and sizes are data.

Symptom: Qwen2-VL, Qwen2.5-VL, Qwen3-VL, from 4.54 on all models that copy their attention:
`GuardOnDataDependentSymNode`.
Cause: to 4.52, and in 4.53.1-4.53.3, a mask is filled segment by segment; else queries, keys and values are split
by `lengths.tolist()`. A segment is a frame, or a window.
What is done: while it is traced, there is one segment, and `scaled_dot_product_attention` is given the real ones in
blocks of at most 256 queries, in a `scan`: memory grows with the patches, and each block costs what its own segment
has. So it is for `torch.onnx.export(dynamo=True)` of torch 2.13 and later (2.9.1 refuses such a body for Kimi K2.5 and
Muse, older ones cannot put `scan` into ONNX; neither can OpenVINO, or the TorchScript exporter). Elsewhere, and in
GLM-4V of transformers 4.53, segments are the rows of a batch, as wide as the longest; attention `eager` gets a mask.
That takes memory that grows with the square of the patches.
Can go: when ONNX has attention over segments and upstream uses it.
"""

from collections.abc import Iterator

from exportcompat.registry import PatchingSpec

_QWEN2 = "transformers.models.qwen2_vl.modeling_qwen2_vl"
_QWEN25 = "transformers.models.qwen2_5_vl.modeling_qwen2_5_vl"
_QWEN3 = "transformers.models.qwen3_vl.modeling_qwen3_vl"
_MASK = (
    f"{_QWEN2}:Qwen2VisionTransformerPretrainedModel._prepare_attention_mask",
    f"{_QWEN25}:Qwen2_5_VisionTransformerPretrainedModel._prepare_attention_mask",
)
_SOURCE = "https://github.com/huggingface/transformers/blob/{}/src/transformers/models/{}"


_WAYS = {
    "torch>=2.13": ("patch_segment_attention", ("scan",)),
    "torch>=2.6,<2.13": ("patch_segment_attention_without_scan", ()),
}
"""The replacement, and the higher-order operators of its graph, by torch."""


def _variants(releases: str, targets: tuple[str, ...], proofs: tuple[str, ...], source: str) -> Iterator[PatchingSpec]:
    for torch, (replacement, operators) in _WAYS.items():
        yield PatchingSpec(
            id="segment-attention",
            targets=targets,
            replacement=f"exportcompat.patches.vision._segment_attention:{replacement}",
            requires=(f"transformers{releases}", torch),
            reason="Attention loops over segments, whose number and sizes are data: no graph.",
            upstream=(source,),
            proofs=proofs,
            higher_order=operators,
            kind="wrap",
        )


# From 4.54 on the attention of all models is one text. Only windows make torch refuse it at once: where all patches
# are one frame, it looks for the sizes of as many segments as there are patches, for more than ten minutes.
_PROOFS = ("qwen2_5_vl_vision", "qwen2_vl_vision")
_OLD2 = (f"{_QWEN2}:VisionAttention.forward", f"{_QWEN2}:VisionSdpaAttention.forward")
_OLD25 = (f"{_QWEN25}:Qwen2_5_VLVisionAttention.forward", f"{_QWEN25}:Qwen2_5_VLVisionSdpaAttention.forward")
_TWO = (_OLD2[0], _OLD25[0])
_COPIES = "methods_using(transformers:splits)"
_THREE = (*_TWO, f"{_QWEN3}:Qwen3VLVisionAttention.forward", _COPIES)

SPECS = (
    *_variants(">=4.45,<4.49", _OLD2, ("qwen2_vl_vision",), _SOURCE.format("v4.48.3", "qwen2_vl/modeling_qwen2_vl.py")),
    *_variants(
        ">=4.49,<4.53", (*_OLD2, *_OLD25), _PROOFS, _SOURCE.format("v4.52.4", "qwen2_5_vl/modeling_qwen2_5_vl.py")
    ),
    *_variants(">=4.53,<4.53.1", _TWO, _PROOFS, _SOURCE.format("v4.53.0", "qwen2_5_vl/modeling_qwen2_5_vl.py")),
    *_variants(
        ">=4.53.1,<4.54", (*_TWO, *_MASK), _PROOFS, _SOURCE.format("v4.53.3", "qwen2_5_vl/modeling_qwen2_5_vl.py")
    ),
    *_variants(
        ">=4.54,<4.57", (*_TWO, _COPIES), _PROOFS[:1], _SOURCE.format("v4.56.2", "qwen2_5_vl/modeling_qwen2_5_vl.py")
    ),
    *_variants(">=4.57", _THREE, _PROOFS[:1], _SOURCE.format("v5.23.0", "qwen3_vl/modeling_qwen3_vl.py")),
)
