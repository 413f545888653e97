"""Caches of models with states or indexers: what is flattened and put together again gives the same next token."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a cache is made of tensors")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from torch.utils._pytree import tree_flatten, tree_flatten_with_path, tree_unflatten

from exportcompat import InputObserver, apply_patches
from exportcompat.matrix.cases._catalogue import find_case

STATES = ["0.conv_state", "0.recurrent_state"]
COMPRESSED = ("buffer_kv", "buffer_gate", "compressed_kv")
OVERLAP = ("overlap_kv", "overlap_gate")
LEAVES = {
    "mamba": [*STATES, "1.conv_state", "1.recurrent_state"],
    "mamba2": [*STATES, "1.conv_state", "1.recurrent_state"],
    "jamba": [*STATES, "1.key", "1.value"],
    "bamba": [*STATES, "1.key", "1.value"],
    "granite_hybrid": [*STATES, "1.key", "1.value"],
    "qwen3_next": [*STATES, "1.key", "1.value"],
    "qwen3_5_moe_text": [*STATES, "1.key", "1.value"],
    "falcon_h1": [f"{layer}.{name}" for layer in (0, 1) for name in ("key", "value", "conv_state", "recurrent_state")],
    "zamba2": [*STATES, "1.key", "1.value", "1.conv_state", "1.recurrent_state", "2.conv_state", "2.recurrent_state"],
    "nemotron_h": [*STATES, "1.key", "1.value", "2.conv_state", "2.recurrent_state"],
    "lfm2": ["0.conv_state", "1.key", "1.value"],
    "minimax": ["0.recurrent_state", "1.key", "1.value"],
    "inkling": [
        f"{layer}.{name}"
        for layer in (0, 1)
        for name in ("key", "value", "conv_state", "conv_state_1", "conv_state_2", "conv_state_3")
    ],
    "deepseek_v4": [
        "0.key",
        "0.value",
        "1.key",
        *(f"1.{part}_{name}" for part in ("compressor", "indexer") for name in (*COMPRESSED, *OVERLAP)),
        "2.key",
        *(f"2.compressor_{name}" for name in COMPRESSED),
    ],
    "deepseek_v32": [f"{layer}.{name}" for layer in (0, 1) for name in ("key", "value", "index_key")],
}
EXISTING = [name for name in LEAVES if find_case(name).exists()]


def next_logits(decoder: Any, cache: Any) -> Any:
    inputs = {"input_ids": torch.full((2, 1), 7)}
    positions = torch.tensor([5])
    if "cache_position" in decoder._parameters:
        inputs["cache_position"] = positions
    with torch.no_grad():
        return decoder.model(**inputs, **{decoder.past_argument: cache}, use_cache=True).logits


@pytest.mark.parametrize("name", EXISTING)
def test_round_trip_gives_the_same_next_token(name: str) -> None:
    decoder = find_case(name).decoder()
    cache = decoder.cache(2, 5)
    with apply_patches():
        leaves, spec = tree_flatten(copy.deepcopy(cache))
        rebuilt = tree_unflatten([leaf.clone() for leaf in leaves], spec)
    assert torch.equal(next_logits(decoder, rebuilt), next_logits(decoder, cache))


@pytest.mark.parametrize("name", EXISTING)
def test_leaves_are_named_by_layer(name: str) -> None:
    cache = find_case(name).decoder().cache(2, 5)
    with apply_patches():
        found = [path[0].key for path, _ in tree_flatten_with_path(cache)[0]]
    assert found == LEAVES[name]


@pytest.mark.skipif("qwen3_next" not in EXISTING, reason="transformers has no Qwen3-Next")
def test_states_have_as_many_rows_as_there_are_texts() -> None:
    """The first call has no states, so nothing but their place says so."""
    decoder = find_case("qwen3_next").decoder()
    observer = InputObserver()
    with apply_patches(), observer(decoder.model, store_n_calls=3):
        decoder.model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=4, do_sample=False, pad_token_id=0)
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert [axes[0] for axes in shapes[decoder.past_argument]] == ["batch"] * 4
