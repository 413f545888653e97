"""Decoders whose texts hold images, sounds or videos: what a call is given, and which of its axes are dynamic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from ._decoder import Sample, TransformersDecoder, generator

PLACEHOLDER = 127
"""The token in place of which features go; texts are made of the tokens below it."""
_SIDE = 16


@dataclass(frozen=True)
class Conversation:
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
        "input_features_mask",
        "feature_attention_mask",
    )

    @property
    def takes_later_items(self) -> bool:
        """Eager puts items of a later call into its text, too."""
        return True

    def follows(self, talk: Conversation) -> bool:
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


class WindowedDecoder(MediaDecoder):
    """A model with sliding windows: 16 patches of each image, shuffled to 4 (Aya Vision, Cohere2 Vision)."""

    def follows(self, talk: Conversation) -> bool:
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
