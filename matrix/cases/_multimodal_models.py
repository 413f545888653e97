"""Decoders that see images or hear sounds: built whole from configurations, with random weights.

One graph serves the first call, which has images or sounds, and the later ones, which have a text alone. Where an item
goes is said in one place, `prompt`: each item has as many placeholders in the text as the model makes features of it,
with a token of text between two items, and rows with fewer of them have padding on the left.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import Decoder, generator
from ._media_decoder import (
    _SIDE,
    PLACEHOLDER,
    Conversation,
    FramesDecoder,
    MediaDecoder,
    PatchesDecoder,
    SizedDecoder,
    TiledDecoder,
    WindowedDecoder,
)
from .causal_lm import SHARED, SHORT, SIZES

_VISION: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": _SIDE,
    "initializer_range": 0.2,
}
_AUDIO: Mapping[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "num_mel_bins": 8,
    "max_source_positions": 12,
    "initializer_range": 0.2,
}
_COHERE = {
    "model_type": "cohere2",
    **SIZES,
    "head_dim": 8,
    "sliding_window": 8,
    "sliding_window_pattern": 2,
    "layer_types": ["sliding_attention", "full_attention"],
}
_LLAMA_WITH_CLIP = {
    "text_config": {"model_type": "llama", **SIZES},
    "vision_config": {"model_type": "clip_vision_model", "patch_size": 8, "projection_dim": 32, **_VISION},
}
_QWEN_WITH_SIGLIP = {
    "text_config": {"model_type": "qwen2", **SIZES},
    "vision_config": {"model_type": "siglip_vision_model", "patch_size": 8, **_VISION},
}
_LARGE4 = {
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "index_topk": 256,
    "index_n_heads": 8,
    "index_head_dim": 16,
}
_TILES = {"image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]}
_GEMMA = {**SIZES, "head_dim": 8, "vocab_size": 128}


class LlavaDecoder(MediaDecoder):
    """LLaVA, VipLLaVA: 4 patches of each image, without the one that stands for all."""


class UnmergedDecoder(MediaDecoder):
    """DeepSeek-VL: 16 patches of each image, all of them."""

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        return [[16] * count for count in counts]


class PixtralDecoder(SizedDecoder):
    """Pixtral's tower: images of 2 or 4 squares of 8 pixels, each of its own size, padded to the largest of a call.

    With one square in all, eager Mistral 3 loses the axis of its features, and stops.
    """

    axes: Mapping[str, Mapping[int, str]] = {
        "pixel_values": {0: "images", 2: "height", 3: "width"},
        "image_sizes": {0: "images"},
    }
    _arguments = (*MediaDecoder._arguments, "image_sizes")
    kinds = ((_SIDE, _SIDE), (8, _SIDE), (_SIDE, 8))
    area = 64

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        sizes = self._sizes(sum(counts))
        largest = [max(side) for side in zip(*sizes, strict=True)] or [_SIDE] * 2
        return {
            "pixel_values": torch.randn(len(sizes), 3, *largest, generator=generator()),
            "image_sizes": torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2),
        }


class PaliGemmaDecoder(MediaDecoder):
    """PaliGemma: 4 patches of each image; positions begin with 1, and a prompt attends to all of itself."""

    first_position = 1

    def types(self, tokens: Any) -> dict[str, Any]:
        return {"token_type_ids": torch.zeros_like(tokens)}


class Gemma3Decoder(WindowedDecoder):
    """Gemma3: 16 patches of each image, pooled to 4 tokens that attend to each other."""

    def types(self, tokens: Any) -> dict[str, Any]:
        return {"token_type_ids": (tokens == PLACEHOLDER).long()}


class OnevisionDecoder(TiledDecoder):
    """LLaVA-OneVision: features of more than 2 tiles are resized; of several images in a row each is whole."""

    axes: Mapping[str, Mapping[int, str]] = {**TiledDecoder.axes, "batch_num_images": {0: "batch"}}
    kinds = (((40, 44), 5, 10), ((30, 20), 5, 16), ((12, 40), 3, 14))

    @property
    def has_whole_images(self) -> bool:
        """Whether the model of this release takes images of a row with several as they are."""
        return "batch_num_images" in inspect.signature(self.model.forward).parameters

    def follows(self, talk: Conversation) -> bool:
        is_mixed = any(1 in call and max(call) > 1 for call in talk.calls if isinstance(call, tuple))
        return super().follows(talk) and not (is_mixed and self.has_whole_images and self._packs_flat())

    def _packs_flat(self) -> bool:
        """Say whether features of whole images have one axis, as in 4.53 to 4.55; eager cannot have tiles beside."""
        features = [torch.zeros(1, 4, 32)]
        packed, _ = self.model.model.pack_image_features(features, [self.kinds[0][0]], image_newline=torch.zeros(32))
        return bool(packed[0].dim() == 1)

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        rows = super().features(counts)
        return [[5] * len(row) if len(row) > 1 and self.has_whole_images else row for row in rows]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        return {**super().media(counts), "batch_num_images": torch.tensor(counts)}


class NextVideoDecoder(FramesDecoder):
    """LLaVA-NeXT-Video: 4 patches of each frame are one feature."""

    def length(self, frames: int) -> int:
        return frames


class VideoLlavaDecoder(FramesDecoder):
    """Video-LLaVA: 4 patches of each frame, and the one that stands for all."""

    def length(self, frames: int) -> int:
        return 5 * frames


class Gemma4Decoder(PatchesDecoder):
    """Gemma 4: each patch has its column and its row, -1 if it is of no image."""

    axes: Mapping[str, Mapping[int, str]] = {"pixel_values": {0: "images"}, "image_position_ids": {0: "images"}}
    _arguments = (*MediaDecoder._arguments, "image_position_ids")

    def places(self, sizes: Sequence[tuple[int, int]], inside: Any) -> dict[str, Any]:
        columns = torch.tensor([columns for _, columns in sizes], dtype=torch.int64).reshape(-1, 1)
        patches = torch.arange(16)
        places = torch.stack([patches % columns, patches // columns], -1)
        return {"image_position_ids": places.masked_fill(~inside[..., None], -1)}


class Lfm2VlDecoder(PatchesDecoder):
    """LFM2-VL: a mask of the patches, and the rows and columns of each image."""

    axes: Mapping[str, Mapping[int, str]] = {
        name: {0: "images"} for name in ("pixel_values", "pixel_attention_mask", "spatial_shapes")
    }
    _arguments = (*MediaDecoder._arguments, "spatial_shapes")

    @property
    def _misplaces_windows(self) -> bool:
        """To 5.14 eager takes one token at a time behind a past."""
        return any(hasattr(module, "slow_forward") for module in self.model.modules())

    def places(self, sizes: Sequence[tuple[int, int]], inside: Any) -> dict[str, Any]:
        shapes = torch.tensor(sizes, dtype=torch.int64).reshape(-1, 2)
        return {"pixel_attention_mask": inside.long(), "spatial_shapes": shapes}


class Idefics3Decoder(MediaDecoder):
    """Idefics3: 16 patches of each image, shuffled to 4; rows with fewer images have images of zeros."""

    axes: Mapping[str, Mapping[int, str]] = {
        "pixel_values": {0: "image_batch", 1: "images"},
        "pixel_attention_mask": {0: "image_batch", 1: "images"},
    }

    @property
    def takes_later_items(self) -> bool:
        # To 4.53 eager takes no notice of images if the cache is filled; a graph does, as later releases do.
        forward = inspect.unwrap(type(self.model.model).forward)
        return "past_seen_tokens" not in forward.__code__.co_varnames

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        shape = (len(counts), max(counts), 3, _SIDE, _SIDE)
        pixels = torch.randn(shape, generator=generator())
        mask = torch.ones(len(counts), max(counts), _SIDE, _SIDE, dtype=torch.int64)
        # Every second image is narrower than the others.
        mask[:, 1::2, :, _SIDE - 4 :] = 0
        for place, count in enumerate(counts):
            pixels[place, count:] = 0
            mask[place, count:] = 0
        return {"pixel_values": pixels, "pixel_attention_mask": mask}


class Qwen2AudioDecoder(MediaDecoder):
    """Qwen2-Audio: sounds of 24 frames at most, a feature for 4 of them."""

    axes: Mapping[str, Mapping[int, str]] = {"input_features": {0: "sounds"}, "feature_attention_mask": {0: "sounds"}}
    _frames = 24

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        lengths = iter(self._lengths(sum(counts)))
        return [[((next(lengths) - 1) // 2 - 1) // 2 + 1 for _ in range(count)] for count in counts]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        total = sum(counts)
        lengths = torch.tensor(self._lengths(total), dtype=torch.int64)
        return {
            "input_features": torch.randn(total, 8, self._frames, generator=generator()),
            "feature_attention_mask": (torch.arange(self._frames) < lengths[:, None]).long(),
        }

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names in a file; the mask is handed back, and no output may have the name of an input."""
        names, outputs = super().names(inputs)
        return names, [*outputs, "output_attention_mask"]

    def _lengths(self, count: int) -> list[int]:
        return [self._frames - 5 * (place % 4) for place in range(count)]


class MusicFlamingoDecoder(Qwen2AudioDecoder):
    """Music Flamingo: sounds of 24 frames at most, a feature for 4 of them, turned by the time that each stands for."""

    axes: Mapping[str, Mapping[int, str]] = {"input_features": {0: "sounds"}, "input_features_mask": {0: "sounds"}}

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        made = super().media(counts)
        return {"input_features": made["input_features"], "input_features_mask": made["feature_attention_mask"]}

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names in a file, which has the features of all sounds beside the logits."""
        names, outputs = MediaDecoder.names(self, inputs)
        return names, [*outputs, "audio_hidden_states"]


class VoxtralDecoder(MediaDecoder):
    """Voxtral: sounds of 24 frames, a feature for 8 of them."""

    axes: Mapping[str, Mapping[int, str]] = {"input_features": {0: "sounds"}}

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        return [[3] * count for count in counts]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        return {"input_features": torch.randn(sum(counts), 8, 24, generator=generator())}


_FAMILIES: Mapping[str, tuple[type[MediaDecoder], str, Mapping[str, Any]]] = {
    "llava": (
        LlavaDecoder,
        "Llava",
        {
            **_LLAMA_WITH_CLIP,
            "image_token_index": PLACEHOLDER,
        },
    ),
    "paligemma": (
        PaliGemmaDecoder,
        "PaliGemma",
        {
            "text_config": {"model_type": "gemma", **_GEMMA},
            "vision_config": {"model_type": "siglip_vision_model", "patch_size": 8, **_VISION},
            "projection_dim": 32,
            "image_token_index": PLACEHOLDER,
        },
    ),
    "gemma3_image": (
        Gemma3Decoder,
        "Gemma3",
        {
            "text_config": {
                "model_type": "gemma3_text",
                **_GEMMA,
                "sliding_window": 8,
                "sliding_window_pattern": 2,
                "layer_types": ["sliding_attention", "full_attention"],
                "query_pre_attn_scalar": 8,
            },
            "vision_config": {"model_type": "siglip_vision_model", "patch_size": 4, **_VISION},
            "mm_tokens_per_image": 4,
            "image_token_index": PLACEHOLDER,
        },
    ),
    "idefics3": (
        Idefics3Decoder,
        "Idefics3",
        {
            "text_config": {"model_type": "llama", **SIZES},
            "vision_config": {"model_type": "idefics3_vision", "patch_size": 4, **_VISION},
            "scale_factor": 2,
            "image_token_id": PLACEHOLDER,
        },
    ),
    "smolvlm": (
        Idefics3Decoder,
        "SmolVLM",
        {
            "text_config": {"model_type": "llama", **SIZES},
            "vision_config": {"model_type": "smolvlm_vision", "patch_size": 4, **_VISION},
            "scale_factor": 2,
            "image_token_id": PLACEHOLDER,
        },
    ),
    "llava_pixtral": (
        PixtralDecoder,
        "Llava",
        {
            "text_config": {"model_type": "llama", **SIZES},
            "vision_config": {"model_type": "pixtral", **_VISION, "patch_size": 8, "head_dim": 8},
            "image_token_index": PLACEHOLDER,
            "vision_feature_select_strategy": "full",
            "vision_feature_layer": -1,
        },
    ),
    "mistral3": (
        PixtralDecoder,
        "Mistral3",
        {
            "text_config": {"model_type": "mistral", **SIZES, "sliding_window": None},
            "vision_config": {"model_type": "pixtral", **_VISION, "patch_size": 4, "head_dim": 8},
            "image_token_index": PLACEHOLDER,
            "spatial_merge_size": 2,
        },
    ),
    "mistral_large4": (
        PixtralDecoder,
        "MistralLarge4",
        {
            "text_config": {**SIZES, "num_key_value_heads": 4, **_LARGE4},
            "vision_config": {"model_type": "pixtral", **_VISION, "patch_size": 4, "head_dim": 8},
            "image_token_index": PLACEHOLDER,
            "spatial_merge_size": 2,
        },
    ),
    "lighton_ocr": (
        PixtralDecoder,
        "LightOnOcr",
        {
            "text_config": {"model_type": "qwen3", **SIZES, "head_dim": 8},
            "vision_config": {"model_type": "pixtral", **_VISION, "patch_size": 4, "head_dim": 8},
            "image_token_id": PLACEHOLDER,
            "spatial_merge_size": 2,
        },
    ),
    "vipllava": (
        LlavaDecoder,
        "VipLlava",
        {
            **_LLAMA_WITH_CLIP,
            "image_token_index": PLACEHOLDER,
            "vision_feature_layers": [-2, -1],
        },
    ),
    "aya_vision": (
        WindowedDecoder,
        "AyaVision",
        {
            "text_config": _COHERE,
            "vision_config": {"model_type": "siglip_vision_model", "patch_size": 4, **_VISION},
            "image_token_index": PLACEHOLDER,
            "downsample_factor": 2,
        },
    ),
    "cohere2_vision": (
        WindowedDecoder,
        "Cohere2Vision",
        {
            "text_config": _COHERE,
            "vision_config": {"model_type": "siglip_vision_model", "patch_size": 4, **_VISION},
            "image_token_id": PLACEHOLDER,
            "downsample_factor": 2,
            "alignment_intermediate_size": 64,
        },
    ),
    "internvl": (
        MediaDecoder,
        "InternVL",
        {
            "text_config": {"model_type": "qwen2", **SIZES},
            "vision_config": {
                "model_type": "internvl_vision",
                **_VISION,
                "patch_size": [4, 4],
                "image_size": [_SIDE, _SIDE],
            },
            "image_token_id": PLACEHOLDER,
            "downsample_ratio": 0.5,
            "image_seq_length": 4,
        },
    ),
    "idefics2": (
        Idefics3Decoder,
        "Idefics2",
        {
            "text_config": {"model_type": "mistral", **SIZES, "sliding_window": None},
            "vision_config": {**_VISION, "patch_size": 4},
            "perceiver_config": {
                "hidden_size": 32,
                "resampler_n_latents": 4,
                "resampler_depth": 1,
                "resampler_n_heads": 4,
                "resampler_head_dim": 8,
                "num_key_value_heads": 2,
            },
            "image_token_id": PLACEHOLDER,
        },
    ),
    "deepseek_vl": (
        UnmergedDecoder,
        "DeepseekVL",
        {
            "text_config": {"model_type": "llama", **SIZES},
            "vision_config": {"model_type": "siglip_vision_model", "patch_size": 4, **_VISION},
            "image_token_id": PLACEHOLDER,
        },
    ),
    "llava_next": (
        TiledDecoder,
        "LlavaNext",
        {
            **_LLAMA_WITH_CLIP,
            "image_token_index": PLACEHOLDER,
            **_TILES,
        },
    ),
    "llava_onevision": (
        OnevisionDecoder,
        "LlavaOnevision",
        {
            **_QWEN_WITH_SIGLIP,
            "image_token_index": PLACEHOLDER,
            "video_token_index": PLACEHOLDER - 1,
            **_TILES,
            "vision_aspect_ratio": "anyres_max_2",
        },
    ),
    "llava_next_video": (
        TiledDecoder,
        "LlavaNextVideo",
        {
            **_LLAMA_WITH_CLIP,
            **_TILES,
            "image_token_index": PLACEHOLDER,
            "video_token_index": PLACEHOLDER - 1,
        },
    ),
    "llava_next_video_frames": (
        NextVideoDecoder,
        "LlavaNextVideo",
        {
            **_LLAMA_WITH_CLIP,
            "image_token_index": PLACEHOLDER - 1,
            "video_token_index": PLACEHOLDER,
        },
    ),
    "llava_onevision_video": (
        FramesDecoder,
        "LlavaOnevision",
        {
            **_QWEN_WITH_SIGLIP,
            **_TILES,
            "image_token_index": PLACEHOLDER - 1,
            "video_token_index": PLACEHOLDER,
        },
    ),
    "video_llava": (
        VideoLlavaDecoder,
        "VideoLlava",
        {
            **_LLAMA_WITH_CLIP,
            "image_token_index": PLACEHOLDER - 1,
            "video_token_index": PLACEHOLDER,
        },
    ),
    "ovis2": (
        MediaDecoder,
        "Ovis2",
        {
            "text_config": {"model_type": "qwen2", **SIZES},
            "vision_config": {
                **_VISION,
                "patch_size": 4,
                "hidden_stride": 2,
                "vocab_size": 64,
                "num_visual_indicator_tokens": 5,
            },
            "image_token_id": PLACEHOLDER,
            # Texts have them as well; beside an image they stand for what is around it.
            "visual_indicator_token_ids": [120, 121, 122, 123, 124],
            "vocab_size": 128,
            "hidden_size": 32,
        },
    ),
    "voxtral": (
        VoxtralDecoder,
        "Voxtral",
        {
            "text_config": {"model_type": "llama", **SIZES},
            "audio_config": {
                "model_type": "voxtral_encoder",
                "hidden_size": 32,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_mel_bins": 8,
                "max_source_positions": 12,
            },
            "audio_token_id": PLACEHOLDER,
        },
    ),
    "gemma4_image": (
        Gemma4Decoder,
        "Gemma4",
        {
            "text_config": {**SIZES, **SHARED, "global_head_dim": 16},
            "vision_config": {
                **_VISION,
                "num_key_value_heads": 4,
                "head_dim": 8,
                "patch_size": 4,
                "pooling_kernel_size": 2,
                "position_embedding_size": 16,
            },
            "audio_config": None,
            "image_token_id": PLACEHOLDER,
            # Texts are made of other tokens.
            "video_token_id": 1,
            "audio_token_id": 2,
        },
    ),
    "lfm2_vl": (
        Lfm2VlDecoder,
        "Lfm2Vl",
        {
            "text_config": {"model_type": "lfm2", **SIZES, **SHORT},
            "vision_config": {"model_type": "siglip2_vision_model", **_VISION, "patch_size": 4, "num_patches": 16},
            "image_token_id": PLACEHOLDER,
            "downsample_factor": 2,
            "projector_hidden_size": 64,
        },
    ),
    "qwen2_audio": (
        Qwen2AudioDecoder,
        "Qwen2Audio",
        {
            "text_config": {"model_type": "qwen2", **SIZES},
            "audio_config": {"model_type": "qwen2_audio_encoder", **_AUDIO},
            "audio_token_index": PLACEHOLDER,
        },
    ),
    "musicflamingo": (
        MusicFlamingoDecoder,
        "MusicFlamingo",
        {
            "text_config": {"model_type": "qwen2", **SIZES},
            "audio_config": {
                "model_type": "audioflamingo3_encoder",
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_mel_bins": 8,
                "max_source_positions": 12,
                "initializer_range": 0.2,
            },
            "audio_token_id": PLACEHOLDER,
        },
    ),
}
"""The decoder, the prefix of the classes and the configuration of each family."""


def exists(name: str) -> bool:
    """Say whether the installed transformers has a family."""
    import transformers

    return hasattr(transformers, f"{_FAMILIES[name][1]}ForConditionalGeneration")


def make_media(name: str) -> Decoder:
    """Build a model.

    Args:
        name: a family, such as `llava`.
    """
    import transformers

    decoder, prefix, settings = _FAMILIES[name]
    config = getattr(transformers, f"{prefix}Config")(**settings, pad_token_id=0)
    model = getattr(transformers, f"{prefix}ForConditionalGeneration")(config)
    for parameter in model.parameters():
        if not parameter.any():
            # Some projections begin as zeros, with which no image would be seen.
            torch.nn.init.normal_(parameter, std=0.2)
    return decoder(model)
