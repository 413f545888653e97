"""A cache that was taken apart and put together again goes on as it would have: the same next logits and counts."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a cache is a pytree node of torch")
pytest.importorskip("transformers", reason="the caches are those of transformers")

from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from exportcompat import apply_patches
from exportcompat.matrix.cases._catalogue import CASES, find_case
from exportcompat.matrix.cases._decoder import Decoder, Sample

MODELS = [
    name
    for name in (
        *("llama", "mistral_window", "gemma2_window", "gemma3", "deepseek_v3", "gpt2", "bloom", "falcon", "mpt"),
        *("llama_static", "mistral_ring", "gemma2_hybrid"),
    )
    if CASES[name].exists()
]
DECODERS: dict[str, Decoder] = {}


def decoder(name: str) -> Decoder:
    if name not in DECODERS:
        DECODERS[name] = find_case(name).decoder()
    return DECODERS[name]


def next_logits(model: Any, cache: Any, past: int, batch: int) -> Any:
    tokens = torch.full((batch, 1), 7)
    mask = torch.ones(batch, past + 1, dtype=torch.int64)
    with torch.no_grad():
        return model(input_ids=tokens, attention_mask=mask, past_key_values=cache, use_cache=True).logits


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=8, deadline=None)
@given(batch=st.integers(1, 3), past=st.integers(1, 7))
def test_the_next_logits_are_the_same(name: str, batch: int, past: int) -> None:
    case = decoder(name)
    with apply_patches():
        cache = case.cache(batch, past)
        leaves, spec = tree_flatten(cache)
        assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
        again = tree_unflatten([leaf.clone() for leaf in leaves], spec)
        wanted = next_logits(case.model, copy.deepcopy(cache), past, batch)
        assert torch.equal(next_logits(case.model, again, past, batch), wanted)


@pytest.mark.parametrize("name", MODELS)
def test_counts_are_kept(name: str) -> None:
    case = decoder(name)
    with apply_patches():
        cache = case.cache(2, 5)
        again = tree_map(lambda leaf: leaf, cache)
        assert type(again) is type(cache)
        if hasattr(cache, "get_seq_length"):
            assert again.get_seq_length() == cache.get_seq_length() == 5


@pytest.mark.parametrize("name", MODELS)
def test_a_past_of_another_length_has_the_same_structure(name: str) -> None:
    case = decoder(name)
    with apply_patches():
        specs = [tree_flatten(case.cache(batch, past))[1] for batch, past in ((2, 3), (2, 5), (1, 0), (3, 7))]
    assert all(spec == specs[0] for spec in specs)


def test_a_sliding_layer_that_counts_with_numbers_is_refused_in_a_graph() -> None:
    caches = pytest.importorskip("transformers.cache_utils", reason="the caches are those of transformers")
    if not hasattr(caches, "StaticSlidingWindowLayer"):
        pytest.skip("layers of a fixed size that slide count with Python numbers from transformers 4.56 on")
    model = find_case("mistral_window").decoder().model
    cache = caches.StaticCache(config=model.config, max_cache_len=16)
    inputs = {"input_ids": torch.ones(1, 3, dtype=torch.int64)}
    with apply_patches(), torch.no_grad():
        model(**inputs, past_key_values=cache)
        again = tree_map(lambda leaf: leaf, cache)
        assert again.get_seq_length() == cache.get_seq_length() == 3
        with pytest.raises(Exception, match="'static-cache-pytree': StaticSlidingWindowLayer counts its tokens with a"):
            torch.export.export(model, (), kwargs={**inputs, "past_key_values": cache}, strict=False)


@pytest.mark.parametrize("name", MODELS)
def test_an_emptied_cache_is_like_none(name: str) -> None:
    case = decoder(name)
    inputs = case.tokens(Sample(2, None, 4))
    with apply_patches(), torch.no_grad():
        wanted = case.model(**inputs).logits
        found = case.model(**inputs, past_key_values=case.cache(2, 0), use_cache=True).logits
    assert torch.allclose(found, wanted, atol=1e-5)
