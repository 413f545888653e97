"""`EncoderDecoderCache` as a pytree node: the round trip in eager mode, the names of its leaves, what is refused."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a cache holds tensors")
pytest.importorskip("transformers", reason="the cache is one of transformers")

from torch.utils import _pytree as pytree

from exportcompat import apply_patches
from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.cases._decoder import Sample

NAMES = ("whisper_decoder", "t5_decoder", "bart_decoder")
EXISTING = [name for name in NAMES if CASES[name].exists()]
LEAVES = [f"{layer}.{part}.{leaf}" for layer in (0, 1) for part in ("decoder", "encoder") for leaf in ("key", "value")]


def again(cache: Any) -> Any:
    leaves, spec = pytree.tree_flatten(cache)
    return pytree.tree_unflatten(leaves, spec)


@pytest.mark.parametrize("name", EXISTING)
def test_the_next_logits_are_the_same_after_a_round_trip(name: str) -> None:
    decoder = CASES[name].decoder()
    _, cache = decoder(decoder.sample(Sample(2, None, 4)), None)
    call = {key: value for key, value in decoder.sample(Sample(2, 4, 3)).items() if key != decoder.past_argument}
    wanted, _ = decoder(call, copy.deepcopy(cache))
    with apply_patches():
        twin = again(cache)
    assert twin.is_updated == cache.is_updated and all(twin.is_updated.values())
    assert twin.get_seq_length() == cache.get_seq_length() == 4
    found, _ = decoder(call, twin)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("name", EXISTING)
def test_the_leaves_have_the_names_that_clients_read(name: str) -> None:
    decoder = CASES[name].decoder()
    with apply_patches():
        inputs, outputs = decoder.names(decoder.sample(Sample()))
    assert [text for text in inputs if "past" in text] == [f"past_key_values.{leaf}" for leaf in LEAVES]
    assert outputs == ["logits", *(f"present.{leaf}" for leaf in LEAVES)]


def test_a_cache_that_is_filled_on_one_side_keeps_its_layers() -> None:
    decoder = CASES["whisper_decoder"].decoder()
    cache: Any = decoder.cache(2, 3)
    cache.cross_attention_cache = type(cache.cross_attention_cache)()
    with apply_patches():
        twin = again(cache)
        leaves, _ = pytree.tree_flatten(twin)
    assert len(leaves) == 4 and twin.get_seq_length() == 3


def test_a_part_that_is_no_node_is_refused() -> None:
    decoder = CASES["whisper_decoder"].decoder()
    cache: Any = decoder.cache(2, 3)

    class Other(type(cache.cross_attention_cache)):  # type: ignore[misc]
        pass

    cache.cross_attention_cache.__class__ = Other
    message = "spec 'encoder-decoder-cache-pytree': an EncoderDecoderCache with a Other cannot be flattened"
    with apply_patches(), pytest.raises(TypeError, match=message):
        pytree.tree_flatten(cache)
