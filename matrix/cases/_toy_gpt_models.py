"""Variants of the tiny GPT, each with one habit that real models have and exporters stumble over."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import Cache, GPTConfig, TinyGPT

from ._decoder import Decoder, OpenPlainDecoder, PlainDecoder


class StatefulDecoder(GPTDecoder):
    """Stores a tensor on the module in each call, and has none before the first."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        self.last_positions = position_ids + 1
        return super().forward(input_ids, attention_mask, position_ids, past_key_values)


class OpenDecoder(GPTDecoder):
    """Takes what is not a text through `**kwargs`, as models with image features do."""

    def forward(  # type: ignore[override]  # The difference is what it is for.
        self, input_ids: Tensor, attention_mask: Tensor, **kwargs: Any
    ) -> tuple[Tensor, Cache]:
        return super().forward(input_ids, attention_mask, kwargs["position_ids"], kwargs["past_key_values"])


class BufferedDecoder(GPTDecoder):
    """Has a buffer that is a `Parameter`, as FalconMamba to 5.4 has."""

    def __init__(self, model: TinyGPT) -> None:
        super().__init__(model)
        scale = torch.nn.Parameter(torch.full((1,), 0.5), requires_grad=False)
        self.register_buffer("scale", scale, persistent=False)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits * self.scale, cache


class SqueezingDecoder(GPTDecoder):
    """Squeezes an axis that is never 1, as the experts of LongCat-Flash do."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits.squeeze(-1), cache


class SteadiedDecoder(GPTDecoder):
    """Adds a small number to what may be 0, as the norms of Muse Spark do."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits * 1e8 * (torch.relu(-logits.abs()) + 1e-8), cache


class SubtractingDecoder(GPTDecoder):
    """Subtracts a mask of integers from a number, as ProphetNet does."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits * (1.5 - attention_mask[:, -input_ids.shape[1] :, None]), cache


class CheckingDecoder(GPTDecoder):
    """Checks the elements of a tensor, as deformable attention does, and VITS."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Cache
    ) -> tuple[Tensor, Cache]:
        torch._check_tensor_all(attention_mask >= 0)
        logits, cache = super().forward(input_ids, attention_mask, position_ids, past_key_values)
        return logits, cache


class VmapGPT(TinyGPT):
    """Builds its mask with `torch.vmap` over batch, query and key, as transformers 4.53-4.57 do."""

    def mask(self, attention_mask: Tensor | None, past: int, new: int) -> Tensor:
        from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

        padding = torch.ones(1, past + new).bool() if attention_mask is None else attention_mask.bool()

        def may_attend(row: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (key <= query) & padding[row, key] | (key == query)

        function = may_attend
        for dims in ((None, None, 0), (None, 0, None), (0, None, None)):
            function = torch.vmap(function, in_dims=dims, out_dims=0)
        # Without it, a tensor as an index is read, which vmap does not allow.
        with TransformGetItemToIndex():
            rows, queries = torch.arange(padding.shape[0]), torch.arange(past, past + new)
            return function(rows, queries, torch.arange(past + new))[:, None]


DECODERS: Mapping[str, type[GPTDecoder]] = {
    "buffered": BufferedDecoder,
    "open": OpenDecoder,
    "squeezed": SqueezingDecoder,
    "stateful": StatefulDecoder,
    "steadied": SteadiedDecoder,
    "subtracting": SubtractingDecoder,
    "checking": CheckingDecoder,
}
"""The habits that are a decoder's, by name."""


def make_tiny_gpt(variant: str = "") -> Decoder:
    """Build the tiny GPT, or a variant of it: `vmap`, or a key of `DECODERS`."""
    gpt = VmapGPT if variant == "vmap" else TinyGPT
    decoder = DECODERS.get(variant, GPTDecoder)
    plain = OpenPlainDecoder if variant == "open" else PlainDecoder
    return plain(decoder(gpt(GPTConfig(128, 32, n_layers=2, n_heads=4, n_positions=256, n_kv_heads=2))))
