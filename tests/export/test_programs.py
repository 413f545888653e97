"""Programs of `torch.export` that are saved, loaded and called."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils import _pytree as pytree

from exportcompat import apply_patches, plan

DYNAMIC = torch.export.Dim.DYNAMIC

Module: Any = torch.nn.Module


class Growing(Module):
    """What a decoder does with sizes: past + new = total."""

    def forward(self, past: Any, new: Any, mask: Any) -> Any:
        return torch.cat([past, new], 1) * mask


def exported(**axes: Any) -> Any:
    """Return a program, called with `past` and `new` tokens."""
    sizes = {"past": 5, "new": 3, "mask": 8}
    inputs = {name: torch.ones(2, size) for name, size in sizes.items()}
    shapes = {name: {1: axes.get(name, DYNAMIC)} for name in sizes}
    return torch.export.export(Growing(), (), inputs, dynamic_shapes=shapes).module()


def call(program: Any, past: int, new: int) -> Any:
    return program(past=torch.ones(2, past), new=torch.ones(2, new), mask=torch.ones(2, past + new))


@pytest.mark.skipif(
    not any(item.applies and item.spec.id == "torch-export-size-bounds" for item in plan()), reason="for torch 2.13"
)
class TestSizeBounds:
    """Short inputs of a program."""

    def test_the_sum_of_two_sizes_is_no_bound(self) -> None:
        with apply_patches(exclude=["torch-export-size-bounds"]):
            program = exported()
        with pytest.raises(AssertionError, match=">= 4"):
            call(program, 0, 3)
        with apply_patches(include=["torch-export-size-bounds"]):
            program = exported()
        assert call(program, 0, 3).shape == (2, 3)
        # What does not fit together is refused as before.
        with pytest.raises(AssertionError, match="Guard failed"):
            program(past=torch.ones(2, 2), new=torch.ones(2, 3), mask=torch.ones(2, 6))

    def test_a_bound_of_the_user_stays(self) -> None:
        with apply_patches(include=["torch-export-size-bounds"]):
            program = exported(new=torch.export.Dim("new", min=3))
        with pytest.raises(AssertionError, match=">= 3"):
            call(program, 4, 2)


def test_the_layout_of_an_encoder_decoder_cache_is_plain_data() -> None:
    from transformers import DynamicCache
    from transformers.cache_utils import EncoderDecoderCache

    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    for part in (cache.self_attention_cache, cache.cross_attention_cache):
        part.update(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    cache.is_updated = {0: True}
    with apply_patches(include=["encoder-decoder-cache-pytree", "dynamic-cache-pytree"]):
        leaves, layout = pytree.tree_flatten(cache)
        loaded = pytree.treespec_loads(pytree.treespec_dumps(layout))
        assert loaded == layout
        again = pytree.tree_unflatten(leaves, loaded)
    assert again.is_updated == {0: True}
    assert torch.equal(again.cross_attention_cache.layers[0].keys, torch.ones(1, 2, 3, 4))
