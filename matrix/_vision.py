"""Vision towers that take images of different sizes in one row of patches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ._decoders import Sample, generator
from ._forward import Forward

Grids = tuple[tuple[int, int, int], ...]
"""Frames, rows and columns of each image."""

_SIZES: Mapping[str, Any] = {
    "hidden_act": "silu",
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_ROW = 3 * 2 * 4 * 4
_LARGE, _SMALL = (1, 16, 16), (1, 8, 12)


class VisionTower(Forward):
    """A tower of Qwen-VL; a shape has the size of each image, in patches."""

    traced: Grids = (_LARGE,)
    shapes: Sequence[Grids] = (
        ((1, 12, 12),),
        ((1, 10, 14),),
        ((1, 18, 18),),
        ((1, 20, 20),),
        ((1, 10, 14), (1, 16, 16)),
        ((1, 12, 12), (1, 4, 20), (1, 18, 6)),
        ((4, 10, 8),),
        ((1, 6, 6), (3, 8, 14)),
    )
    axes: Mapping[str, Any] = {"hidden_states": {0: "patches"}, "grid_thw": {0: "images"}}

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        count = len(self.run(self.inputs((_SMALL,))))
        self.outputs = [f"output_{index}" for index in range(count)]

    def shape_of(self, sample: Sample) -> Grids:
        # A sample of a decoder is as many images as it has texts.
        return self.traced if sample == Sample() else (_LARGE, *((_SMALL,) * (sample.batch - 1)))

    def inputs(self, shape: Grids) -> dict[str, Any]:
        sizes = torch.tensor(shape, dtype=torch.int64)
        rows = torch.randn((int(sizes.prod(1).sum()), _ROW), generator=generator())
        return {"hidden_states": rows, "grid_thw": sizes}

    def results(self, output: Any) -> Sequence[Any]:
        return list(_tensors(output))


def _tensors(output: Any) -> Iterator[Any]:
    """Yield the tensors of an output: one to 4.57, in a structure from 5.0 on."""
    if isinstance(output, torch.Tensor):
        yield output
        return
    for item in output.values() if isinstance(output, Mapping) else output:
        yield from _tensors(item)


def _tower(model: Any) -> VisionTower:
    """Return a tower whose weights are large enough for every patch to matter."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return VisionTower(model.eval())


def make_qwen2_vl() -> VisionTower:
    """Build the tower of Qwen2-VL: full attention within each frame."""
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

    config = Qwen2VLVisionConfig(**{**_SIZES, "hidden_act": "quick_gelu"}, depth=2, embed_dim=32, hidden_size=32)
    return _tower(Qwen2VisionTransformerPretrainedModel(config))


def make_qwen2_5_vl() -> VisionTower:
    """Build the tower of Qwen2.5-VL: windows of 6 by 6 patches, and full attention in the second of three layers."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

    more = {"window_size": 24, "fullatt_block_indexes": [1], "intermediate_size": 64, "out_hidden_size": 32}
    config = Qwen2_5_VLVisionConfig(**_SIZES, **more, depth=3, hidden_size=32)
    return _tower(Qwen2_5_VisionTransformerPretrainedModel(config))


def make_qwen3_vl() -> VisionTower:
    """Build the tower of Qwen3-VL: a table of 7 by 7 positions, and features of the first layer beside the last."""
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

    more = {"num_position_embeddings": 49, "deepstack_visual_indexes": [0], "intermediate_size": 64}
    config = Qwen3VLVisionConfig(**_SIZES, **more, depth=2, hidden_size=32, out_hidden_size=32)
    return _tower(Qwen3VLVisionModel(config))
