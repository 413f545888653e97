"""A cache that is given by the name that it had in an older release of transformers."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.utils.deprecation import deprecate_kwarg

from exportcompat._observer._record import bound
from exportcompat.patches.toolkit.cache_names import cache_name, cache_of
from exportcompat.patches.torch_export.renamed_arguments import lift_old_names, old_names, patch_combine_args

_PLACES = ("torch.export.dynamic_shapes", "torch._export.non_strict_utils", "torch.export._trace")


class Renamed(nn.Module):  # type: ignore[misc,unused-ignore]
    """Adds what it calls a cache, and what else it is given."""

    @deprecate_kwarg("cache_params", "99.0", new_name="cache")  # type: ignore[untyped-decorator,unused-ignore]
    @deprecate_kwarg("past_key_values", "99.0", new_name="cache")  # type: ignore[untyped-decorator,unused-ignore]
    def forward(self, tokens: Tensor, cache: Tensor | None = None, **kwargs: Any) -> Tensor:
        rest = sum(value.sum() for value in kwargs.values())
        return tokens + rest if cache is None else tokens + cache.sum() + rest


def inputs(batch: int, past: int) -> dict[str, Tensor]:
    return {"tokens": torch.ones(batch, 4), "past_key_values": torch.ones(batch, past)}


def shapes() -> dict[str, Any]:
    batch, past = torch.export.Dim("batch"), torch.export.Dim("past")
    return {"tokens": {0: batch}, "past_key_values": {0: batch, 1: past}}


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the replacement wherever torch binds arguments, in whatever release is installed."""
    for place in _PLACES:
        monkeypatch.setattr(f"{place}._combine_args", patch_combine_args(torch.export.dynamic_shapes._combine_args))


def test_torch_alone_refuses_an_old_name() -> None:
    with pytest.raises(Exception, match="past_key_values"):
        torch.export.export(Renamed(), (), inputs(3, 5), dynamic_shapes=shapes(), strict=False)


@pytest.mark.usefixtures("patched")
def test_a_program_takes_the_name_that_it_was_exported_with() -> None:
    program = torch.export.export(Renamed(), (), inputs(3, 5), dynamic_shapes=shapes(), strict=False)
    other = inputs(2, 7)
    assert torch.equal(program.module()(**other), Renamed()(**other))


def test_names_are_found_below_other_decorators_and_on_methods() -> None:
    assert old_names(Renamed().forward) == ["cache_params", "past_key_values"]
    assert old_names(nn.Linear(1, 1).forward) == []


def test_what_else_is_behind_the_stars_stays_there() -> None:
    behind = {"past_key_values": 1, "images": 2}
    assert lift_old_names({"tokens": 0, "kwargs": behind}, Renamed()) == {
        "tokens": 0,
        "past_key_values": 1,
        "kwargs": {"images": 2},
    }
    assert lift_old_names({"tokens": 0, "kwargs": {"images": 2}}, Renamed()) == {"tokens": 0, "kwargs": {"images": 2}}
    assert lift_old_names({"tokens": 0, "kwargs": behind}, nn.Linear(1, 1)) == {"tokens": 0, "kwargs": behind}


@pytest.mark.parametrize("name", ["cache", "past_key_values", "cache_params"])
def test_an_observed_call_has_the_name_of_the_signature(name: str) -> None:
    found = bound(inspect.signature(Renamed().forward), (), {name: 1, "tokens": 0, "images": 2})
    assert found == {"tokens": 0, "cache": 1, "images": 2}
    assert list(found) == ["tokens", "cache", "images"]


def test_a_cache_is_found_by_any_of_its_names() -> None:
    assert cache_of({"tokens": 0, "past_key_value": 1}) == 1
    assert cache_of({"tokens": 0, "cache": None, "kwargs": {"past_key_values": 1}}) == 1
    assert cache_of({"tokens": 0, "kwargs": 3}) is None
    assert cache_name(["tokens", "cache_params"]) == "cache_params"
    assert cache_name(["tokens"]) == ""


def test_a_state_is_a_cache_of_a_text_alone() -> None:
    assert cache_name(["input_ids", "state", "use_cache"]) == "state"
    assert cache_name(["input_ids", "pixel_values", "state", "noise"]) == ""
    assert cache_name(["input_values", "state", "sr"]) == ""
