"""Vision towers of models that have copied those of Qwen-VL, with and without changes."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ._decoder import generator
from ._qwen_vl_models import _ROTARY, Grids, ImageText, VisionEncoder, make_config, make_vision_encoder, make_whole


class ImageEncoder(VisionEncoder):
    """A tower for images alone, whose videos are images to it."""

    shapes = tuple(grids for grids in VisionEncoder.shapes if all(frames == 1 for frames, _, _ in grids))


class PixelEncoder(VisionEncoder):
    """A tower that takes its patches by another name."""

    axes: Mapping[str, Any] = {"pixel_values": {0: "patches"}, "grid_thw": {0: "images"}}

    def inputs(self, shape: Grids) -> dict[str, Any]:
        rows, sizes = super().inputs(shape).values()
        return {"pixel_values": rows, "grid_thw": sizes}


class SquareEncoder(PixelEncoder):
    """A tower whose patches are squares of one frame, `(patches, 3, 4, 4)`."""

    def inputs(self, shape: Grids) -> dict[str, Any]:
        rows, sizes = super().inputs(shape).values()
        return {"pixel_values": rows[:, :48].reshape(-1, 3, 4, 4), "grid_thw": sizes}


class StackedEncoder(SquareEncoder):
    """The same, behind an axis of size 1."""

    axes: Mapping[str, Any] = {"pixel_values": {1: "patches"}, "grid_thw": {0: "images"}}

    def inputs(self, shape: Grids) -> dict[str, Any]:
        squares, sizes = super().inputs(shape).values()
        return {"pixel_values": squares[None], "grid_thw": sizes}


class MergedEncoder(VisionEncoder):
    """A tower whose rows are squares of patches that are merged, `(squares, 8, 8, 3)`, with sizes counted in those."""

    axes: Mapping[str, Any] = {"pixel_values": {0: "squares"}, "image_grid_thw": {0: "images"}}
    shapes = (((1, 6, 6),), ((1, 5, 7),), ((1, 3, 3), (1, 2, 6)), ((1, 1, 1), (1, 4, 3), (1, 9, 2)))

    def inputs(self, shape: Grids) -> dict[str, Any]:
        sizes = torch.tensor(shape, dtype=torch.int64)
        squares = torch.randn(int(sizes.prod(1).sum()), 8, 8, 3, generator=generator())
        return {"pixel_values": squares, "image_grid_thw": sizes}


@dataclass(frozen=True)
class Copy:
    """A tower that is built like those of Qwen-VL.

    Attributes:
        config: the name of its configuration.
        model: the name of its class.
        settings: what differs from the others.
        kind: what is called.
    """

    config: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kind: type[VisionEncoder] = VisionEncoder


_SETTINGS: Mapping[str, Any] = {
    "depth": 2,
    "hidden_act": "silu",
    "hidden_size": 32,
    "in_channels": 3,
    "intermediate_size": 64,
    "num_heads": 2,
    "out_hidden_size": 32,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_TABLE = {"num_position_embeddings": 49}
_GRID = {"pos_emb_height": 7, "pos_emb_width": 7, "num_attention_heads": 2, "num_hidden_layers": 2}
COPIES: Mapping[str, Copy] = {
    "qwen2_5_omni": Copy(
        "Qwen2_5OmniVisionEncoderConfig",
        "Qwen2_5OmniVisionEncoder",
        {"window_size": 24, "fullatt_block_indexes": [1], "depth": 3},
    ),
    "qwen3_vl_moe": Copy(
        "Qwen3VLMoeVisionConfig", "Qwen3VLMoeVisionModel", {**_TABLE, "deepstack_visual_indexes": [0]}
    ),
    "qwen3_omni_moe": Copy(
        "Qwen3OmniMoeVisionEncoderConfig", "Qwen3OmniMoeVisionEncoder", {**_TABLE, "deepstack_visual_indexes": [0]}
    ),
    "qwen3_5": Copy("Qwen3_5VisionConfig", "Qwen3_5VisionModel", _TABLE),
    "qwen3_5_moe": Copy("Qwen3_5MoeVisionConfig", "Qwen3_5MoeVisionModel", _TABLE),
    "glm4v": Copy("Glm4vVisionConfig", "Glm4vVisionModel", {"image_size": 28}, ImageEncoder),
    "glm4v_moe": Copy("Glm4vMoeVisionConfig", "Glm4vMoeVisionModel", {"image_size": 28}, ImageEncoder),
    "glm_ocr": Copy("GlmOcrVisionConfig", "GlmOcrVisionModel", {"image_size": 28}, ImageEncoder),
    # It has patches of one frame.
    "ernie4_5_vl_moe": Copy(
        "Ernie4_5_VLMoeVisionConfig", "Ernie4_5_VLMoeVisionTransformerPretrainedModel", {"in_channels": 6}
    ),
    "paddleocr_vl": Copy(
        "PaddleOCRVisionConfig",
        "PaddleOCRVisionModel",
        {"num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28},
        StackedEncoder,
    ),
    "kimi_k25": Copy("Kimi_K25VisionConfig", "Kimi_K25VisionModel", {**_GRID, "pos_emb_time": 4}, SquareEncoder),
    "muse_spark": Copy("MuseSparkVisionConfig", "MuseSparkVisionModel", {**_GRID, "patch_temporal": 2}, PixelEncoder),
    "muse_glimmer": Copy(
        "MuseGlimmerVisionConfig", "MuseGlimmerVisionModel", {**_GRID, "patch_temporal": 2}, PixelEncoder
    ),
    "inkling2": Copy(
        "Inkling2VisionConfig",
        "Inkling2VisionModel",
        {
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "posemb_grid_size": 7,
            "projection_hidden_dim": 32,
            "text_hidden_size": 32,
        },
        MergedEncoder,
    ),
}


def make_copy(name: str) -> VisionEncoder:
    """Build the tower of a model, by the name of its folder."""
    copy, package = COPIES[name], f"transformers.models.{name}"
    config = getattr(importlib.import_module(f"{package}.configuration_{name}"), copy.config)
    model = getattr(importlib.import_module(f"{package}.modeling_{name}"), copy.model)
    return make_vision_encoder(model(config(**{**_SETTINGS, **copy.settings})), copy.kind)


class PictureText(ImageText):
    """A model of texts with images whose tower takes no videos."""

    shapes = tuple(page for page in ImageText.shapes if all(frames == 1 for frames, _, _ in page[1]))


class SquareText(ImageText):
    """A model of texts whose patches are squares of one frame, `(patches, 3, 4, 4)`."""

    def inputs(self, shape: Any) -> dict[str, Any]:
        inputs = super().inputs(shape)
        return {**inputs, "pixel_values": inputs["pixel_values"][:, :48].reshape(-1, 3, 4, 4)}


@dataclass(frozen=True)
class Whole:
    """A model of texts with such a tower; attributes as those of `Copy`."""

    config: str
    model: str
    settings: Mapping[str, Any]
    kind: type[ImageText] = ImageText


_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    # 5.0 wants it to be given.
    "pad_token_id": 0,
}
# Rows and columns take turns.
_EQUAL_SIDES = {**_ROTARY, "mrope_section": [1, 1, 2]}
WHOLE: Mapping[str, Whole] = {
    "qwen3_vl_moe": Whole("Qwen3VLMoeConfig", "Qwen3VLMoeForConditionalGeneration", {"head_dim": 8, **_EXPERTS}),
    "qwen3_5": Whole(
        "Qwen3_5Config", "Qwen3_5ForConditionalGeneration", {"head_dim": 8, "layer_types": ["full_attention"]}
    ),
    "paddleocr_vl": Whole("PaddleOCRVLConfig", "PaddleOCRVLForConditionalGeneration", {"head_dim": 8}, SquareText),
    "glm4v": Whole("Glm4vConfig", "Glm4vForConditionalGeneration", {"head_dim": 8}, PictureText),
    "ernie4_5_vl_moe": Whole(
        "Ernie4_5_VLMoeConfig",
        "Ernie4_5_VLMoeForConditionalGeneration",
        {
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": [32, 16],
            "moe_num_shared_experts": 1,
            "mlp_layer_types": ["sparse"],
            "rope_scaling": _EQUAL_SIDES,
            "rope_parameters": _EQUAL_SIDES,
        },
        PictureText,
    ),
}


def make_whole_copy(name: str) -> ImageText:
    """Build a model of texts with the tower of `make_copy`, by the name of its folder."""
    whole, package = WHOLE[name], f"transformers.models.{name}"
    config = getattr(importlib.import_module(f"{package}.configuration_{name}"), whole.config)
    model = getattr(importlib.import_module(f"{package}.modeling_{name}"), whole.model)
    vision = {**make_copy(name).model.config.to_dict(), "out_hidden_size": 32}
    return make_whole(model(make_config(config, vision, **whole.settings)), whole.kind)
