"""ViLT: a text with an image, each image of its own size, padded to that of the largest."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from exportcompat._verification import TOKEN_AXES

from ._decoder import generator
from ._forward import Forward
from ._random_weights import randomized

_Sizes = Sequence[tuple[int, int]]


class TextsWithImages(Forward):
    """Answers a question about an image; a shape is `(sequence, sizes)`, a height and width for each image.

    The positions were learnt for images of 32 by 32 pixels in patches of 8.
    """

    traced: tuple[int, _Sizes] = (7, ((48, 64), (40, 24)))
    shapes: Sequence[tuple[int, _Sizes]] = (
        (3, ((32, 32),)),
        (9, ((64, 32), (8, 8), (40, 24))),
        (12, ((37, 57), (21, 9), (8, 50), (96, 104), (17, 16))),
        (1, ((8, 8), (8, 8))),
    )
    axes: Mapping[str, Any] = {
        **dict.fromkeys(("input_ids", "attention_mask"), TOKEN_AXES),
        "pixel_values": {0: "batch", 2: "height", 3: "width"},
        "pixel_mask": {0: "batch", 1: "height", 2: "width"},
    }
    outputs = ("logits",)

    def inputs(self, shape: tuple[int, _Sizes]) -> dict[str, Any]:
        sequence, sizes = shape
        height, width = (max(lengths) for lengths in zip(*sizes, strict=True))
        pixel_mask = torch.zeros(len(sizes), height, width, dtype=torch.int64)
        for mask, (rows, columns) in zip(pixel_mask, sizes, strict=True):
            mask[:rows, :columns] = 1
        texts = (len(sizes), sequence)
        attention_mask = torch.ones(texts, dtype=torch.int64)
        attention_mask[::2, -(sequence // 3) or sequence :] = 0
        return {
            "input_ids": torch.randint(3, 60, texts, generator=generator()),
            "attention_mask": attention_mask,
            "pixel_values": torch.randn(len(sizes), 3, height, width, generator=generator()),
            "pixel_mask": pixel_mask,
        }

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]:
        # Eager draws the order of patches, which what it returns depends on in the last bits alone.
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return super().run(inputs)


def make_vilt() -> Forward:
    """Build ViLT, which answers by one of five labels."""
    from transformers import ViltConfig, ViltForQuestionAnswering

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    images = {"image_size": 32, "patch_size": 8, "vocab_size": 64, "max_position_embeddings": 40}
    return TextsWithImages(randomized(ViltForQuestionAnswering(ViltConfig(**sizes, **images, num_labels=5))))
