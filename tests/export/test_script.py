"""What patches do while `torch.jit.trace` records, as the TorchScript exporter has it, and programs that are saved."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from torch import nn
from torch.utils import _pytree as pytree

from exportcompat import apply_patches
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.cases._decoder import Sample
from exportcompat.matrix.checks._check import check
from exportcompat.patches.attention.mask_broadcast import patch_vmap_for_bhqkv
from exportcompat.patches.experts._dense_loop import patch_expert_loop, patch_get_interface


def vmapped(mask_function: Any, bh_indices: bool = True) -> Any:
    """Make a mask as transformers 4.57 does."""
    axes = [(None, None, None, 0), (None, None, 0, None)]
    for in_dims in axes + ([(None, 0, None, None), (0, None, None, None)] if bh_indices else []):
        mask_function = torch.vmap(mask_function, in_dims=in_dims, out_dims=0)
    return mask_function


def causal(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return key <= query


def odd_heads(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return (head % 2 == 1) & (key <= query + batch)


def largest(batch: Any, head: Any, query: Any, key: Any) -> Any:
    """Take scalars alone: indices of several axes cannot be stacked."""
    return torch.stack([query, key]).max() > 2


class Masks(nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, mask_function: Any, is_whole: bool) -> None:
        super().__init__()
        self.make = patch_vmap_for_bhqkv(vmapped)(mask_function, is_whole)
        self.is_whole = is_whole

    def forward(self, queries: Any, keys: Any) -> Any:
        batch, heads = (torch.arange(2), torch.arange(3)) if self.is_whole else (None, None)
        return self.make(batch, heads, queries, keys)


def by_script(module: Any, inputs: Any) -> Any:
    return torch.jit.trace(module, inputs)


def by_export(module: Any, inputs: Any) -> Any:
    dynamic = ({0: torch.export.Dim.DYNAMIC},) * 2
    return torch.export.export(module, inputs, dynamic_shapes=dynamic, strict=False).module()


@pytest.mark.parametrize(
    ("record", "mask_function", "is_whole"),
    [
        *((record, *what) for record in (by_script, by_export) for what in ((causal, True), (causal, False))),
        (by_script, odd_heads, True),
        # torch.jit.trace crashes where torch.vmap runs.
        (by_export, largest, True),
    ],
)
def test_a_mask_by_broadcasting_is_the_one_by_vmap(record: Any, mask_function: Any, is_whole: bool) -> None:
    module = Masks(mask_function, is_whole)
    wanted = module(torch.arange(5), torch.arange(7))
    recorded = record(module, (torch.arange(5), torch.arange(7)))
    found = recorded(torch.arange(5), torch.arange(7))
    assert found.shape == ((2, 3, 5, 7) if is_whole else (5, 7))
    assert torch.equal(found, wanted)
    assert torch.equal(recorded(torch.arange(2), torch.arange(4)), module(torch.arange(2), torch.arange(4)))


def test_a_mask_by_broadcasting_indexes_tensors_as_the_one_by_vmap() -> None:
    higher_order = pytest.importorskip(
        "torch._dynamo._trace_wrapped_higher_order_op", reason="vmap needs its mode to index by scalars"
    )
    padding = torch.tensor([[0, 1, 1], [1, 1, 1]]).bool()

    class Padded(nn.Module):  # type: ignore[misc,unused-ignore]
        def forward(self, mask: Any) -> Any:
            make = patch_vmap_for_bhqkv(vmapped)(lambda batch, head, query, key: mask[batch, key])
            with higher_order.TransformGetItemToIndex():
                return make(torch.arange(2), torch.arange(1), torch.arange(4), torch.arange(3))

    wanted = padding[:, None, None, :].expand(2, 1, 4, 3)
    assert torch.equal(Padded()(padding), wanted)
    assert torch.equal(torch.jit.trace(Padded(), (torch.ones_like(padding),))(padding), wanted)


class Experts(nn.Module):  # type: ignore[misc,unused-ignore]
    """Experts in a loop over those that were hit, as DeepSeek-V3 of transformers 4 has them."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1)))

    def forward(self, rows: Any, chosen: Any) -> Any:
        result = torch.zeros_like(rows)
        for expert in range(3):
            (places,) = torch.where(chosen == expert)
            if places.numel() > 0:
                result.index_add_(0, places, rows[places] @ self.weights[expert])
        return result


class Chosen:
    """An interface as transformers 5 has it, which knows of a grouped product."""

    def get_interface(self, experts_implementation: str, default: Any) -> Any:
        return default if experts_implementation == "eager" else lambda *_: "grouped"


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_an_expert_that_the_sample_does_not_hit_is_in_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, first, spread = torch.ones(3, 4), torch.zeros(3, dtype=torch.int64), torch.tensor([2, 0, 1])
    wanted = Experts()(rows, spread)
    assert not torch.allclose(torch.jit.trace(Experts(), (rows, first))(rows, spread), wanted)
    monkeypatch.setattr(Experts, "forward", patch_expert_loop(Experts.forward))
    assert torch.allclose(torch.jit.trace(Experts(), (rows, first))(rows, spread), wanted)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_script_has_the_loop_of_the_model_instead_of_another_implementation() -> None:
    get_interface, found = patch_get_interface(Chosen.get_interface), []

    def traced(rows: Any) -> Any:
        found.append(get_interface(Chosen(), "grouped_mm", Experts.forward)(Experts(), rows, torch.zeros(3).long()))
        return found[-1]

    assert get_interface(Chosen(), "grouped_mm", Experts.forward)() == "grouped"
    torch.jit.trace(traced, (torch.ones(3, 4),), check_trace=False)
    assert found[-1].shape == (3, 4)


@pytest.mark.parametrize("name", ["mixtral_script", "phi3_longrope_script"])
def test_a_script_is_right_at_other_shapes(name: str) -> None:
    outcome = check(find_case(name), Sample())
    assert (outcome.state, outcome.problems, outcome.calls) == ("works", [], 188)


def test_a_script_without_patches_is_wrong_or_fails() -> None:
    assert check(find_case("phi3_longrope_script"), Sample(), patched=False).state in ("wrong", "fails")


@pytest.fixture
def silent() -> Iterator[None]:
    """Keep torch's notice of example inputs that it does not load: its format string is broken."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("silent")
def test_a_program_can_be_saved_and_is_right_when_it_is_loaded() -> None:
    decoder, buffer = find_case("llama").decoder(), io.BytesIO()
    with apply_patches():
        inputs, other = decoder.sample(Sample()), decoder.sample(Sample(3, 7, 2))
        shapes = decoder.dynamic_shapes(inputs)
        dynamic = pytree.tree_map(lambda name: torch.export.Dim.DYNAMIC if isinstance(name, str) else name, shapes)
        torch.export.save(torch.export.export(decoder.model, (), inputs, dynamic_shapes=dynamic, strict=False), buffer)
        buffer.seek(0)
        found = torch.export.load(buffer).module()(**other).logits
        wanted, _ = decoder(decoder.tokens(Sample(3, 7, 2)), other[decoder.past_argument])
    torch.testing.assert_close(found, wanted)
