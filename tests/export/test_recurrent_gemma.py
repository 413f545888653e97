"""RecurrentGemma has its states in its cache inside a scope, and returns it."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="states are tensors")
pytest.importorskip("transformers", reason="RecurrentGemma is a model of transformers")

from transformers import DynamicCache

from exportcompat import apply_patches, plan
from exportcompat.matrix.cases import find_case

if not any(item.spec.id == "recurrent-gemma-states" and item.applies for item in plan()):
    pytest.skip("recurrent-gemma-states is for newer releases", allow_module_level=True)

TEXTS = [torch.tensor([[5, 6, 7, 8, 9, 3]]), torch.tensor([[9, 3, 4, 5, 6, 8]])]


@pytest.fixture
def model() -> Any:
    return find_case("recurrent_gemma_export").decoder().model


def by_turns(model: Any) -> list[Any]:
    """Return the last logits of two texts, of which each is continued in turn."""
    caches = [DynamicCache(config=model.config) for _ in TEXTS]
    with torch.no_grad():
        for end in range(1, TEXTS[0].shape[1] + 1):
            calls = zip(TEXTS, caches, strict=True)
            positions = torch.tensor([[end - 1]])
            found = [model(text[:, end - 1 : end], cache=cache, position_ids=positions) for text, cache in calls]
    return [result.logits[:, -1] for result in found]


def test_two_texts_are_continued_by_turns(model: Any) -> None:
    with torch.no_grad():
        wanted = [model(text, use_cache=False).logits[:, -1] for text in TEXTS]
    with apply_patches():
        found = by_turns(model)
    assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(found, wanted, strict=True))
    # That is what upstream does; when it does not any more, the spec has less to do.
    mixed = zip(by_turns(model), wanted, strict=True)
    assert not all(torch.allclose(*pair, atol=1e-3) for pair in mixed)


def test_a_cache_is_made_and_returned_and_the_modules_stay_as_they_were(model: Any) -> None:
    blocks = [layer.temporal_block for layer in model.model.layers[:2]]
    with apply_patches(), torch.no_grad():
        result = model(TEXTS[0])
        assert torch.equal(model(TEXTS[0], return_dict=False)[0], result.logits)
    assert [block.conv1d_state for block in blocks] == [None, None]
    assert [tuple(layer.conv_states[0].shape) for layer in result.cache.layers[:2]] == [(1, 32, 3)] * 2
    assert result.cache.get_seq_length() == TEXTS[0].shape[1]


def test_a_cache_without_a_place_for_states_is_refused(model: Any) -> None:
    with apply_patches(), pytest.raises(ValueError, match=r"no place for the states of layers \[0, 1\]"):
        model(TEXTS[0], cache=DynamicCache())
