"""A variant of the tiny GPT that computes with positions made of sizes: spaced, paired, fitted and sampled."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache

from ._decoder import PlainDecoder
from ._toy_gpt_models import make_tiny_gpt

_PLACES = 7


class SpacingDecoder(GPTDecoder):
    """Scales each token by its place between the first and the last, and by tables that are fitted to the length."""

    def __init__(self, gpt: nn.Module) -> None:
        super().__init__(gpt)
        self.table = nn.Parameter(torch.randn(1, 1, 1, _PLACES))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        batch, length = input_ids.shape
        # As positions of patches are fitted to an image; the tenth is against a quotient that is rounded down.
        factor = (1.0, (length + 0.1) / _PLACES)
        fitted = [functional.interpolate(self.table, scale_factor=factor, mode=way) for way in ("bilinear", "bicubic")]
        turn = torch.tensor([[0.8, 0.1, 0.2], [-0.1, 0.9, 0.0]]).expand(batch, 2, 3)
        grid = functional.affine_grid(turn, [batch, 1, 2, length], align_corners=False)
        rows, columns = torch.tril_indices(length, length)
        pairs = torch.zeros(batch, length).index_add(1, rows, torch.cos(input_ids[:, columns].float()))
        places = torch.linspace(-1, 1, length) + sum(fitted).reshape(-1)
        # Of rows of another number than columns; the last element is on the diagonal of a square alone.
        own = torch.zeros(length, length + 1)
        own[:, 1:].fill_diagonal_(0.5)
        largest = functional.max_pool1d(pairs[:, None], 3, 1, 1)[:, 0]
        return logits * (1 + places + grid.sum((1, 3)) + pairs + own.sum(0)[1:] + largest)[..., None], cache


def make_spacing_gpt() -> PlainDecoder:
    """Build the tiny GPT that computes with positions."""
    return PlainDecoder(SpacingDecoder(make_tiny_gpt().model.gpt))
