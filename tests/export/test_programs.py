"""Programs of `torch.export` that are saved, loaded and called."""

import dataclasses
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


class Remaining(Module):
    """Computes what a cache does not have yet, as cross-attention does, and appends it."""

    def __init__(self, least: int = 0) -> None:
        super().__init__()
        self.least = least

    def forward(self, past: Any, states: Any) -> Any:
        new = states[:, past.shape[1] :]
        rows = new.reshape(-1, 4) * 2
        if self.least and new.shape[1] > self.least:
            rows = rows + 1
        return torch.cat([past, rows.view(new.shape[0], -1, 4).contiguous()], 1)


def remaining(least: int = 0) -> Any:
    """Return the program of `Remaining`, called with a past and all states."""
    inputs = {"past": torch.ones(2, 3, 4), "states": torch.ones(2, 8, 4)}
    shapes = {name: {0: DYNAMIC, 1: DYNAMIC} for name in inputs}
    return torch.export.export(Remaining(least), (), inputs, dynamic_shapes=shapes)


@pytest.mark.skipif(
    not any(item.applies and item.spec.id == "torch-export-derived-sizes" for item in plan()), reason="from torch 2.11"
)
class TestDerivedSizes:
    """Slices of 0 and 1 elements in a program."""

    @pytest.mark.parametrize(("past", "states"), [(0, 5), (5, 5), (4, 5), (1, 9)])
    def test_they_are_computed(self, past: int, states: int) -> None:
        given = {"past": torch.randn(3, past, 4), "states": torch.randn(3, states, 4)}
        with apply_patches(exclude=["torch-export-derived-sizes"]):
            refusing = remaining().module()
        if (past, states) != (1, 9):
            with pytest.raises(AssertionError, match="Guard failed"):
                refusing(**given)
        with apply_patches():
            program = remaining()
            decomposed = program.run_decompositions()
        for made in (program, decomposed):
            torch.testing.assert_close(made.module()(**given), Remaining()(**given))

    @pytest.mark.filterwarnings("ignore::exportcompat.AssumptionWarning")
    def test_what_the_model_asks_is_still_checked(self) -> None:
        with apply_patches():
            program = remaining(least=1).module()
        with pytest.raises(AssertionError, match="Guard failed"):
            program(past=torch.ones(2, 4, 4), states=torch.ones(2, 5, 4))
        assert program(past=torch.ones(2, 2, 4), states=torch.ones(2, 5, 4)).shape == (2, 5, 4)

    def test_what_does_not_fit_together_is_refused(self) -> None:
        with apply_patches():
            program = remaining().module()
        with pytest.raises(AssertionError, match="Guard failed"):
            program(past=torch.ones(3, 2, 4), states=torch.ones(2, 5, 4))


@dataclasses.dataclass(frozen=True)
class Kept:
    """What a `Holder` is besides its tensor, as the caches have it."""

    names: tuple[str, ...]
    state: Any = dataclasses.field(default=None, compare=False)


class Holder:
    """Is no node of its own accord."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class Holding(Module):
    def forward(self, rows: Any) -> Any:
        return Holder(rows * 2)


@pytest.mark.skipif(
    not any(item.applies and item.spec.id == "torch-export-result-structure" for item in plan()), reason="for 2.13"
)
def test_dynamo_returns_what_has_a_dataclass_in_its_structure() -> None:
    pytree.register_pytree_node(
        Holder, lambda made: ([made.rows], Kept(("rows",), {"of": object})), lambda leaves, _: Holder(*leaves)
    )
    try:
        inputs = (torch.ones(2, 3),)
        with (
            apply_patches(exclude=["torch-export-result-structure"]),
            pytest.raises(NotImplementedError, match="frozen dataclass"),
        ):
            torch.export.export(Holding(), inputs, strict=True)
        with apply_patches():
            program = torch.export.export(Holding(), inputs, strict=True)
        structure = program.call_spec.out_spec
        assert structure is not None and structure.context == Kept(("rows",)) and structure.context.state is None
        assert torch.equal(program.module()(*inputs).rows, torch.full((2, 3), 2.0))
    finally:
        pytree._deregister_pytree_node(Holder)


def test_an_encoder_decoder_cache_of_which_the_tensors_alone_are_known() -> None:
    from transformers import DynamicCache
    from transformers.cache_utils import EncoderDecoderCache

    from exportcompat.patches.caches.encoder_decoder_cache_pytree import flatten, unflatten

    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    for part in (cache.self_attention_cache, cache.cross_attention_cache):
        part.update(torch.ones(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    with apply_patches(include=["encoder-decoder-cache-pytree", "dynamic-cache-pytree"]):
        leaves, layout = flatten(cache)
        assert unflatten(leaves, dataclasses.replace(layout, state={})).is_updated == {0: True}


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
