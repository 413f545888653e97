"""`generate` and code of a checkpoint that knows the cache by an older name; a file without a cache says so."""

import inspect
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="calls have tensors")

from exportcompat._observer import InputObserver
from exportcompat._observer._named_cache import named_cache
from exportcompat._observer._without_cache import without_cache

Module: Any = torch.nn.Module


class Old:
    """Code of a checkpoint that follows transformers 4.40."""

    def prepare_inputs_for_generation(self, input_ids: Any, past_key_values: Any = None, **_: Any) -> Any:
        return {"input_ids": input_ids, "past_key_values": past_key_values}


class New:
    """Code that follows transformers 5.24."""

    def prepare_inputs_for_generation(self, input_ids: Any, cache: Any = None, past_key_values: Any = None) -> Any:
        return {"input_ids": input_ids, "cache": cache, "past_key_values": past_key_values}


def test_an_older_name_gets_the_cache() -> None:
    model = Old()
    with named_cache(model):
        assert list(inspect.signature(model.prepare_inputs_for_generation).parameters) == [
            "input_ids",
            "past_key_values",
            "_",
        ]
        assert model.prepare_inputs_for_generation(1, cache=2)["past_key_values"] == 2
        assert model.prepare_inputs_for_generation(1, past_key_values=3)["past_key_values"] == 3
    assert vars(model) == {}


def test_the_name_of_today_is_left_alone() -> None:
    model = New()
    with named_cache(model):
        assert vars(model) == {}
    with named_cache(object()):
        pass


class Swallowing:
    """Code of a checkpoint without such a method: that of transformers hands the cache on by the name of today."""

    def prepare_inputs_for_generation(self, input_ids: Any, cache: Any = None, **_: Any) -> Any:
        return {"input_ids": input_ids, "cache": cache}

    def forward(self, input_ids: Any, past_key_values: Any = None, **_: Any) -> Any:
        return input_ids, past_key_values


def test_a_forward_that_knows_an_older_name_gets_the_cache() -> None:
    model = Swallowing()
    with named_cache(model):
        assert model.forward(**model.prepare_inputs_for_generation(1, cache=2)) == (1, 2)
    assert vars(model) == {}
    assert model.forward(**model.prepare_inputs_for_generation(1, cache=2)) == (1, None)


class Counting(Module):  # type: ignore[misc,unused-ignore]
    """A model whose calls have a token more each time."""

    def forward(self, input_ids: Any, past_key_values: Any = None) -> Any:
        return input_ids + 1


@pytest.mark.parametrize(("lengths", "is_said"), [((4, 5, 6), True), ((4, 8), False), ((4,), False)])
def test_a_file_without_a_cache_says_so(lengths: tuple[int, ...], is_said: bool) -> None:
    model, observer = Counting(), InputObserver()
    with observer(model):
        for length in lengths:
            model(torch.ones(1, length, dtype=torch.int64))
    aligned, _ = observer._aligned()
    signature = inspect.signature(model.forward)
    observed: Any = SimpleNamespace(
        model=model, method="forward", signature=signature, records=observer._records, aligned=aligned
    )
    said = without_cache(observed)
    assert bool(said) == is_said
    assert not is_said or "Counting.forward was called without one; let prepare_inputs_for_generation" in said
