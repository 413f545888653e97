"""Encoders: built from configurations, with random weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from exportcompat._verification import TOKEN_AXES

from ._decoder import Sample, generator
from ._forward import Forward

_SIZES: Mapping[str, Any] = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
}
_VISION = {name: value for name, value in _SIZES.items() if name != "vocab_size"}
_SOUND_AXES = {0: "batch", 1: "samples"}
_IMAGE_AXES = {0: "images", 2: "height", 3: "width"}


class TextEncoder(Forward):
    """An encoder of texts; a shape is `(batch, sequence)`, and every second text has padding on the right."""

    traced = (2, 7)
    shapes = ((1, 1), (1, 12), (3, 5), (3, 70), (5, 128))
    axes: Mapping[str, Any] = dict.fromkeys(("input_ids", "attention_mask"), TOKEN_AXES)

    def shape_of(self, sample: Sample) -> tuple[int, int]:
        return self.traced if sample == Sample() else (sample.batch, sample.new)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = torch.ones(shape, dtype=torch.int64)
        mask[::2, -(shape[1] // 3) or shape[1] :] = 0
        return {"input_ids": torch.randint(3, 128, shape, generator=generator()), "attention_mask": mask}


class ImageEncoder(Forward):
    """An encoder of images of any size; a shape is `(batch, height, width)`.

    The positions were learnt for images of 32 by 32 in patches of 8. A size that is no multiple of a patch is cut.
    """

    traced: Any = (2, 48, 64)
    shapes: Sequence[Any] = ((1, 32, 32), (3, 64, 32), (1, 96, 104), (5, 37, 50))
    axes: Mapping[str, Any] = {"pixel_values": _IMAGE_AXES}

    def inputs(self, shape: Any) -> dict[str, Any]:
        batch, *size = shape
        return {"pixel_values": torch.randn(batch, 3, *size, generator=generator()), "interpolate_pos_encoding": True}

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        # torch makes no input of a constant.
        return [name for name, value in inputs.items() if isinstance(value, Tensor)], list(self.outputs)


class TextAndImageEncoder(ImageEncoder):
    """Compares texts with images; a shape is `(texts, sequence, images, height, width)`."""

    traced = (2, 7, 3, 48, 64)
    shapes = ((1, 3, 1, 32, 32), (3, 16, 1, 64, 32), (1, 9, 5, 96, 104), (5, 2, 2, 37, 50))
    axes: Mapping[str, Any] = {**TextEncoder.axes, "pixel_values": _IMAGE_AXES}
    outputs = ("logits_per_image", "logits_per_text", "text_embeds", "image_embeds")

    def inputs(self, shape: tuple[int, int, int, int, int]) -> dict[str, Any]:
        tokens = torch.randint(3, 120, shape[:2], generator=generator())
        mask = torch.ones_like(tokens)
        for row, text in enumerate(tokens):
            # The end of a text is where its state is read.
            end = shape[1] - 1 - row % 2 * (shape[1] // 3)
            text[end] = _END
            mask[row, end + 1 :] = 0
        return {"input_ids": tokens, "attention_mask": mask, **super().inputs(shape[2:])}


_END = 126


class PatchEncoder(Forward):
    """An encoder of images that come as patches; a shape is `(patches, sizes)`, the sizes in patches.

    The positions were learnt for images of 4 by 4 patches of 8 by 8 pixels, and are resized to each image's own size.
    No image is one patch wide and more than one high: `interpolate` of torch 2.13 has wrong numbers for those.
    """

    traced = (20, ((3, 5), (4, 4)))
    shapes = (
        (16, ((4, 4),)),
        (1, ((1, 1),)),
        (36, ((6, 6), (2, 3), (1, 20))),
        (64, ((2, 32), (9, 7), (32, 2), (3, 3), (5, 12))),
    )
    axes: Mapping[str, Any] = {
        "pixel_values": {0: "images", 1: "patches"},
        "pixel_attention_mask": {0: "images", 1: "patches"},
        "spatial_shapes": {0: "images"},
    }
    outputs = ("last_hidden_state", "pooler_output")

    def inputs(self, shape: tuple[int, Sequence[tuple[int, int]]]) -> dict[str, Any]:
        patches, sizes = shape
        counts = torch.tensor([height * width for height, width in sizes])
        mask = (torch.arange(patches) < counts[:, None]).long()
        pixels = torch.randn(len(sizes), patches, 3 * 8 * 8, generator=generator())
        return {
            "pixel_values": pixels * mask[..., None],
            "pixel_attention_mask": mask,
            "spatial_shapes": torch.tensor(sizes),
        }


class SoundEncoder(Forward):
    """An encoder of sounds; a shape is `(batch, samples)`, and every second sound is shorter than the others."""

    traced: Any = (2, 700)
    shapes: Sequence[Any] = ((1, 400), (1, 1203), (3, 555), (5, 2000))
    axes: Mapping[str, Any] = dict.fromkeys(("input_values", "attention_mask"), _SOUND_AXES)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = torch.ones(shape, dtype=torch.int64)
        mask[::2, -shape[1] // 3 :] = 0
        return {"input_values": sound(*shape) * mask, "attention_mask": mask}


def sound(batch: int, samples: int) -> Tensor:
    """Return chords of three tones with noise, `(batch, samples)`, float32."""
    pitch, phase = torch.rand(2, batch, 3, 1, generator=generator())
    waves = torch.sin((0.02 + 0.4 * pitch) * torch.arange(samples) + 6 * phase).sum(1)
    return waves + 0.1 * torch.randn(batch, samples, generator=generator())


def make_bert() -> Forward:
    """Build BERT."""
    from transformers import BertConfig, BertModel

    return TextEncoder(BertModel(BertConfig(**_SIZES)))


def make_llama_embedding() -> Forward:
    """Build Llama as a model of embeddings: it is called without positions and without a cache."""
    from transformers import LlamaConfig, LlamaModel

    return TextEncoder(LlamaModel(LlamaConfig(**_SIZES, num_key_value_heads=2, use_cache=False)))


def make_modernbert() -> Forward:
    """Build ModernBERT; every second layer sees 4 tokens to either side."""
    from transformers import ModernBertConfig, ModernBertModel

    own = {"local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0, "reference_compile": False}
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    return TextEncoder(ModernBertModel(ModernBertConfig(**{**_SIZES, **own, **tokens, "num_hidden_layers": 3})))


def make_vit() -> Forward:
    """Build ViT."""
    from transformers import ViTConfig, ViTModel

    return ImageEncoder(ViTModel(ViTConfig(**_VISION, image_size=32, patch_size=8)))


def make_clip() -> Forward:
    """Build CLIP."""
    from transformers import CLIPConfig, CLIPModel

    ends = {"bos_token_id": 1, "eos_token_id": _END, "pad_token_id": 0}
    text = {**_SIZES, "max_position_embeddings": 16, "projection_dim": 16, **ends}
    vision = {**_VISION, "image_size": 32, "patch_size": 8, "projection_dim": 16}
    return TextAndImageEncoder(CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)))


def make_siglip2() -> Forward:
    """Build the part of SigLIP 2 that sees images."""
    from transformers import Siglip2VisionConfig, Siglip2VisionModel

    sizes = {name: value for name, value in _VISION.items() if name != "initializer_range"}
    return PatchEncoder(Siglip2VisionModel(Siglip2VisionConfig(**sizes, num_patches=16, patch_size=8)))


def make_wav2vec2() -> Forward:
    """Build wav2vec 2.0; 10 samples and then 2 make one step."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    convolutions = {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "conv_bias": True}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
    own = {"feat_extract_norm": "layer", "mask_time_prob": 0.0, "mask_feature_prob": 0.0}
    return SoundEncoder(Wav2Vec2Model(Wav2Vec2Config(**_SIZES, **convolutions, **positions, **own)))
