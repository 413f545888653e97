"""Decoders that see images or hear sounds: built whole from configurations, with random weights.

One graph serves the first call, which has images or sounds, and the later ones, which have a text alone. Where an item
goes is said in one place, `prompt`: each item has as many placeholders in the text as the model makes features of it,
with a token of text between two items, and rows with fewer of them have padding on the left.
"""

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch

from exportcompat._verification import LOGITS, Discrepancy, OnnxDecoder, measure, same_tokens

from ._causal_lm_models import SHARED, SHORT, SIZES
from ._decoder import Decoder, Sample, TransformersDecoder, generator

PLACEHOLDER = 127
"""The token in place of which features go; texts are made of the tokens below it."""

_SIDE = 16
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
_TILES = {"image_grid_pinpoints": [[16, 32], [32, 16], [32, 32]]}
_GEMMA = {**SIZES, "head_dim": 8, "vocab_size": 128}


class MediaDecoder(TransformersDecoder):
    """A model of transformers that takes images or sounds in some calls.

    Attributes:
        axes: the dynamic axes of what is beside the text.
        first_position: the position of the first token.
    """

    vocabulary = PLACEHOLDER
    axes: Mapping[str, Mapping[int, str]] = {"pixel_values": {0: "images"}}
    first_position = 0
    _arguments = (
        *TransformersDecoder._arguments,
        "token_type_ids",
        "pixel_values",
        "pixel_attention_mask",
        "input_features",
        "feature_attention_mask",
    )

    @property
    def takes_later_items(self) -> bool:
        """Eager puts items of a later call into its text, too."""
        return True

    def follows(self, talk: "Talk") -> bool:
        """Say whether eager can have a talk."""
        return self.takes_later_items or not talk.has_later_items

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        """Return how many features each item of each row has, given the number of items of each row."""
        return [[4] * count for count in counts]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        """Return the images or sounds of a call; tensors without elements where there are none."""
        return {"pixel_values": torch.randn(sum(counts), 3, _SIDE, _SIDE, generator=generator())}

    def types(self, tokens: Any) -> dict[str, Any]:
        """Return what else goes with each token, `(batch, sequence)`."""
        return {}

    def prompt(self, counts: Sequence[int], text: int, past: Any) -> dict[str, Any]:
        """Return a call besides the cache.

        Args:
            counts: number of items of each row.
            text: tokens of text that each row has at least.
            past: the mask of the tokens before, `(batch, past)`, int64.
        """
        draw = generator()
        rows = [_row(sizes, text + place, draw) for place, sizes in enumerate(self.features(counts))]
        width = max(map(len, rows))
        tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        return self.call(tokens, torch.cat([past, mask], 1), counts)

    def call(self, tokens: Any, mask: Any, counts: Sequence[int]) -> dict[str, Any]:
        """Return a call besides the cache, given tokens, `(batch, new)`, and mask, `(batch, past + new)`."""
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :] + self.first_position
        text = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions.contiguous()}
        return super()._accepted({**text, **self.types(tokens), **self.media(counts)})

    def sample(self, sample: Sample) -> dict[str, Any]:
        past = torch.ones(sample.batch, sample.past or 0, dtype=torch.int64)
        inputs = self.prompt([1] * sample.batch, sample.new, past)
        cache = {} if sample.past is None else {self.past_argument: self.cache(sample.batch, sample.past)}
        return {**inputs, **cache}

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        shapes = super().dynamic_shapes(inputs)
        return {**shapes, **{name: dict(axes) for name, axes in self.axes.items() if name in inputs}}

    def _accepted(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of an eager call: without items it lacks them, and a later one types of tokens too."""
        given = super()._accepted(inputs)
        has_items = all(given[name].numel() for name in self.axes if name in given)
        names = [name for name in given if has_items or name not in self.axes]
        if not has_items and given["attention_mask"].shape != given["input_ids"].shape:
            names = [name for name in names if name in TransformersDecoder._arguments]
        # A mask by types is made for everything so far.
        mask = given["attention_mask"]
        return {name: _whole(given[name], mask) if name == "token_type_ids" else given[name] for name in names}


class LlavaDecoder(MediaDecoder):
    """LLaVA, VipLLaVA: 4 patches of each image, without the one that stands for all."""


class UnmergedDecoder(MediaDecoder):
    """DeepSeek-VL: 16 patches of each image, all of them."""

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        return [[16] * count for count in counts]


class SizedDecoder(MediaDecoder):
    """A model whose images have sizes of their own.

    Attributes:
        kinds: the sizes; one image alone is smaller than the others.
        area: what a feature stands for, in squares of the unit of the sizes.
    """

    kinds: Sequence[tuple[int, int]]
    area: int

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        sizes = iter(self._sizes(sum(counts)))
        return [[prod(next(sizes)) // self.area for _ in range(count)] for count in counts]

    def _sizes(self, count: int) -> list[tuple[int, int]]:
        """Return the size of each image."""
        return [self.kinds[place % len(self.kinds)] for place in range(count, 2 * count)]


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


class WindowedDecoder(MediaDecoder):
    """A model with sliding windows: 16 patches of each image, shuffled to 4 (Aya Vision, Cohere2 Vision)."""

    def follows(self, talk: "Talk") -> bool:
        # What is computed again as one call has each image and each placeholder in it.
        return not self._misplaces_windows or not (talk.has_later_items or talk.has_placeholder)

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        return self._recomputed(inputs, cache) if self._misplaces_windows else super().__call__(inputs, cache)

    @property
    def _misplaces_windows(self) -> bool:
        """To 4.52 a cache that grows stops eager beyond the window, or is wrong there."""
        return any(hasattr(module, "_update_causal_mask") for module in self.model.modules())

    def _recomputed(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        before = inputs if cache is None else cache
        parts = [inputs] if cache is None else [cache, inputs]
        names = [name for name in ("input_ids", "position_ids", "token_type_ids") if name in inputs]
        whole = {name: torch.cat([part[name] for part in parts], 1) for name in names}
        whole |= {"attention_mask": inputs["attention_mask"], **{name: before[name] for name in self.axes}}
        with torch.no_grad():
            logits = self.model(**self._accepted(whole), use_cache=False).logits
        return logits[:, -inputs["input_ids"].shape[1] :], whole


class Gemma3Decoder(WindowedDecoder):
    """Gemma3: 16 patches of each image, pooled to 4 tokens that attend to each other."""

    def types(self, tokens: Any) -> dict[str, Any]:
        return {"token_type_ids": (tokens == PLACEHOLDER).long()}


class TiledDecoder(MediaDecoder):
    """LLaVA-NeXT: an image is tiles of 16 by 16 pixels, 4 features each, besides itself in small.

    Attributes:
        kinds: height and width of images, with the number of tiles and of features that eager makes of each.
    """

    axes: Mapping[str, Mapping[int, str]] = {
        "pixel_values": {0: "images", 1: "tiles"},
        "image_sizes": {0: "images"},
    }
    _arguments = (*MediaDecoder._arguments, "image_sizes", "batch_num_images")
    # Wide, high and nearly square; padded above and below, at the sides, and not at all.
    kinds: Sequence[tuple[tuple[int, int], int, int]] = (((40, 44), 5, 24), ((30, 20), 5, 16), ((12, 40), 3, 14))

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        sizes = iter(self._kinds(sum(counts)))
        return [[next(sizes)[2] for _ in range(count)] for count in counts]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        kinds = self._kinds(sum(counts))
        tiles = max((count for _, count, _ in kinds), default=3)
        sizes = torch.tensor([size for size, _, _ in kinds], dtype=torch.int64).reshape(-1, 2)
        pixels = torch.randn(len(kinds), tiles, 3, _SIDE, _SIDE, generator=generator())
        return {"pixel_values": pixels, "image_sizes": sizes}

    def _kinds(self, count: int) -> list[tuple[tuple[int, int], int, int]]:
        """Return the kind of each image; one image alone has fewer tiles than others."""
        return [self.kinds[place % len(self.kinds)] for place in range(count + 1, 2 * count + 1)]


class OnevisionDecoder(TiledDecoder):
    """LLaVA-OneVision: features of more than 2 tiles are resized; of several images in a row each is whole."""

    axes: Mapping[str, Mapping[int, str]] = {**TiledDecoder.axes, "batch_num_images": {0: "batch"}}
    kinds = (((40, 44), 5, 10), ((30, 20), 5, 16), ((12, 40), 3, 14))

    @property
    def has_whole_images(self) -> bool:
        """Whether the model of this release takes images of a row with several as they are."""
        return "batch_num_images" in inspect.signature(self.model.forward).parameters

    def follows(self, talk: "Talk") -> bool:
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


class FramesDecoder(MediaDecoder):
    """LLaVA-OneVision with videos of 2 or 3 frames: a feature for each, and one behind the last."""

    axes: Mapping[str, Mapping[int, str]] = {"pixel_values_videos": {0: "videos", 1: "frames"}}
    _arguments = (*MediaDecoder._arguments, "pixel_values_videos")

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        return [[self.length(_frames(counts))] * count for count in counts]

    def length(self, frames: int) -> int:
        """Return how many features a video has."""
        return frames + 1

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        size = (sum(counts), _frames(counts), 3, _SIDE, _SIDE)
        return {"pixel_values_videos": torch.randn(*size, generator=generator())}


class NextVideoDecoder(FramesDecoder):
    """LLaVA-NeXT-Video: 4 patches of each frame are one feature."""

    def length(self, frames: int) -> int:
        return frames


class VideoLlavaDecoder(FramesDecoder):
    """Video-LLaVA: 4 patches of each frame, and the one that stands for all."""

    def length(self, frames: int) -> int:
        return 5 * frames


def _frames(counts: Sequence[int]) -> int:
    """Return how many frames the videos of a call have."""
    return 2 + sum(counts) % 2


class PatchesDecoder(SizedDecoder, WindowedDecoder):
    """A model that takes the patches of each image, 16 at most, of 4 by 4 pixels, and makes a feature of each 2 by 2.

    Images are 4 by 4 patches, or half of that, with patches of zeros behind them.
    """

    kinds = ((4, 4), (2, 4), (4, 2))
    area = 4

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        sizes = self._sizes(sum(counts))
        inside = torch.arange(16) < torch.tensor([prod(size) for size in sizes]).reshape(-1, 1)
        pixels = torch.rand(len(sizes), 16, 48, generator=generator()) * inside[..., None]
        return {"pixel_values": pixels, **self.places(sizes, inside)}

    def places(self, sizes: Sequence[tuple[int, int]], inside: Any) -> dict[str, Any]:
        """Return what says where the patches are, given rows and columns of images, and `(images, 16)`, bool."""
        raise NotImplementedError


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


class VoxtralDecoder(MediaDecoder):
    """Voxtral: sounds of 24 frames, a feature for 8 of them."""

    axes: Mapping[str, Mapping[int, str]] = {"input_features": {0: "sounds"}}

    def features(self, counts: Sequence[int]) -> list[list[int]]:
        return [[3] * count for count in counts]

    def media(self, counts: Sequence[int]) -> dict[str, Any]:
        return {"input_features": torch.randn(sum(counts), 8, 24, generator=generator())}


def _row(sizes: Sequence[int], text: int, draw: Any) -> list[int]:
    """Return a row of tokens: a text with items in it, one token of text behind each."""
    tokens: list[int] = torch.randint(3, PLACEHOLDER, (text + len(sizes),), generator=draw).tolist()
    row = tokens[: text // 2]
    for size, between in zip(sizes, tokens[text:], strict=True):
        row += [PLACEHOLDER] * size + [between]
    return row + tokens[text // 2 : text]


def _whole(types: Any, mask: Any) -> Any:
    """Return types of all tokens so far, `(batch, past + new)`; those before are a text."""
    return torch.nn.functional.pad(types, (mask.shape[1] - types.shape[1], 0))


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


@dataclass(frozen=True)
class Talk:
    """Calls on one cache that begins empty.

    Attributes:
        calls: for each call the number of items of each row, or how many tokens of text come without any.
        has_placeholder: a text without items has the placeholder in it, as a model may generate it.
    """

    calls: tuple[tuple[int, ...] | int, ...]
    has_placeholder: bool = False

    @property
    def has_later_items(self) -> bool:
        """Say whether items come in a call that is not the first one."""
        return any(isinstance(call, tuple) for call in self.calls[1:])

    def __str__(self) -> str:
        return f"items or new tokens {', '.join(map(str, self.calls))}"


TALKS = (
    Talk(((1,), 1, 1, 3, 1)),
    Talk(((2,), 5, 1)),
    Talk(((3, 1, 2), 1, 4, 1)),
    Talk(((1, 1, 1), 3, 1, 12, 1)),
    Talk(((2, 0, 1), 1, 2)),
    Talk(((0,), 1, 3)),
    Talk(((0, 0, 0), 1, 12, 1)),
    Talk(((1,), 2, (2,), 1)),
    Talk(((1, 2), 1, (2, 1), 3)),
    Talk(((1, 2), 3, 1), has_placeholder=True),
)
"""1 to 6 items, rows with and without padding, texts alone from the first call on, and items in a later call."""


def compare_media(path: Path, make: Any) -> list[Discrepancy]:
    """Run every talk through the file and through a fresh model.

    Args:
        path: an ONNX file with the interface of a decoder.
        make: makes the model.
    """
    file, eager = OnnxDecoder(path), make()
    talks = [talk for talk in TALKS if eager.follows(talk)]
    return [row for talk in talks for row in _run(file, make(), talk)]


def _run(file: OnnxDecoder, subject: MediaDecoder, talk: Talk) -> Iterator[Discrepancy]:
    rows = len(talk.calls[0]) if isinstance(talk.calls[0], tuple) else 1
    cache, eager_cache, draw = file.empty_cache(rows), None, generator()
    past = torch.ones(rows, 0, dtype=torch.int64)
    for place, call in enumerate(talk.calls):
        inputs = subject.prompt(call, 5, past) if isinstance(call, tuple) else _text(subject, call, past, draw, talk)
        begin = time.perf_counter()
        found, cache = file(inputs, cache)
        middle = time.perf_counter()
        wanted, eager_cache = subject(inputs, eager_cache)
        times = {"onnx_ms": 1000 * (middle - begin), "torch_ms": 1000 * (time.perf_counter() - middle)}
        yield _compared(f"{talk}; call {place + 1}", inputs, found, wanted, times)
        past = inputs["attention_mask"]


def _text(subject: MediaDecoder, new: int, past: Any, draw: Any, talk: Talk) -> dict[str, Any]:
    rows = past.shape[0]
    tokens = torch.randint(3, PLACEHOLDER, (rows, new), generator=draw)
    if talk.has_placeholder:
        tokens[0, 0] = PLACEHOLDER
    return subject.call(tokens, torch.cat([past, torch.ones_like(tokens)], 1), [0] * rows)


def _compared(name: str, inputs: Mapping[str, Any], found: Any, wanted: Any, times: Mapping[str, Any]) -> Discrepancy:
    fields = measure({LOGITS: found}, {LOGITS: wanted})
    same = not fields.get("error") and same_tokens(found, wanted)
    fields["success"] = fields.get("success", False) and same
    shapes = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
    return Discrepancy(call=name, same_tokens=same, inputs=shapes, **times, **fields)
