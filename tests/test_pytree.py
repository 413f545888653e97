"""`DynamicCache` as a pytree node: over whatever registration there was, which is given back, and without a loss."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.fx._pytree as fx_pytree
import torch.utils._pytree as pytree
from transformers import DynamicCache, MistralConfig
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from exportcompat import apply_patches
from exportcompat.registry import PatchingSpec, Registry
from exportcompat.registry._slots import PytreeSlot

pytestmark = pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")

ID = "dynamic-cache-pytree"
WINDOW = 8
TABLES: list[dict[Any, Any]] = [
    pytree.SUPPORTED_NODES,
    pytree.SUPPORTED_SERIALIZED_TYPES,
    pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE,
    fx_pytree.SUPPORTED_NODES,
    fx_pytree.SUPPORTED_NODES_EXACT_MATCH,
]


@pytest.fixture(autouse=True)
def _clean_tables() -> Iterator[None]:
    """Let every test begin without a registration, and take back what it registers."""
    slot = PytreeSlot(DynamicCache, "DynamicCache")
    before = slot.read()
    slot._clear()
    yield
    slot.restore(before)


def registered_at_import() -> None:
    """Register as transformers 4.50-4.55 does when it is imported: all keys, then all values, as a dict."""

    def as_dict(cache: Any) -> dict[str, list[Any]]:
        return {
            "key_cache": [layer.keys for layer in cache.layers],
            "value_cache": [layer.values for layer in cache.layers],
        }

    def unflatten(values: Any, context: Any) -> Any:
        found, cache = pytree._dict_unflatten(values, context), DynamicCache()
        for index, (key, value) in enumerate(zip(found["key_cache"], found["value_cache"], strict=True)):
            cache.update(key, value, index)
        return cache

    pytree.register_pytree_node(
        DynamicCache,
        lambda cache: pytree._dict_flatten(as_dict(cache)),
        unflatten,
        serialized_type_name="transformers.cache_utils.DynamicCache",
        flatten_with_keys_fn=lambda cache: pytree._dict_flatten_with_keys(as_dict(cache)),
    )
    fx_pytree.register_pytree_flatten_spec(
        DynamicCache, lambda cache, spec: fx_pytree._dict_flatten_spec(as_dict(cache), spec)
    )


def registered_on_request() -> None:
    """Register as transformers does for its own exporters."""
    from transformers.integrations import executorch

    executorch.register_dynamic_cache_export_support()


def registered_without_a_name() -> None:
    """Register as somebody does who will not serialise."""
    pytree.register_pytree_node(DynamicCache, lambda cache: ([], None), lambda values, context: DynamicCache())


REGISTRATIONS: list[Callable[[], None]] = [
    lambda: None,
    registered_at_import,
    registered_on_request,
    registered_without_a_name,
]


@pytest.mark.parametrize("register", REGISTRATIONS, ids=["nobody", "import", "request", "nameless"])
def test_a_registration_is_taken_over_and_given_back(register: Callable[[], None], snapshot: Any) -> None:
    register()
    before = snapshot(*TABLES)
    cache = filled(DynamicCache(), 3)
    for _ in range(2):
        with apply_patches(include=ID), apply_patches(include=ID):
            leaves, spec = pytree.tree_flatten(cache)
            expected = [getattr(layer, name) for layer in cache.layers for name in ("keys", "values")]
            assert all(leaf is tensor for leaf, tensor in zip(leaves, expected, strict=True))
            assert fx_pytree.tree_flatten_spec(cache, spec) == leaves
        assert before.changes() == []


@pytest.mark.parametrize("register", REGISTRATIONS[1:3], ids=["import", "request"])
def test_the_other_registration_works_afterwards(register: Callable[[], None]) -> None:
    register()
    cache = filled(DynamicCache(), 3)
    before, _ = pytree.tree_flatten(cache)
    with apply_patches(include=ID):
        inside, _ = pytree.tree_flatten(cache)
    after, spec = pytree.tree_flatten(cache)
    assert [id(leaf) for leaf in after] == [id(leaf) for leaf in before] != [id(leaf) for leaf in inside]
    assert pytree.tree_unflatten(after, spec).get_seq_length() == 3


def test_nobody_knows_the_class_afterwards() -> None:
    with apply_patches(include=ID):
        assert DynamicCache in pytree.SUPPORTED_NODES
    cache = DynamicCache()
    assert pytree.tree_flatten(cache)[0] == [cache]
    registered_on_request()
    assert DynamicCache in pytree.SUPPORTED_NODES


def filled(cache: Any, length: int, *, step: int | None = None, heads: tuple[int, int] = (4, 4)) -> Any:
    """Return `cache` with two layers of `length` tokens, `step` at a time."""
    for start in range(0, length, step or length):
        count = min(step or length, length - start)
        for index in range(2):
            cache.update(torch.rand(1, 2, count, heads[0]), torch.rand(1, 2, count, heads[1]), index)
    return cache


def windowed() -> Any:
    """Return an empty cache of two sliding layers."""
    config = MistralConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, sliding_window=WINDOW
    )
    return DynamicCache(config=config)


def partly() -> Any:
    """Return a cache of which only the first layer has anything."""
    cache = windowed()
    cache.update(torch.rand(1, 2, 3, 4), torch.rand(1, 2, 3, 4), 0)
    return cache


CACHES: dict[str, Callable[[], Any]] = {
    "empty": DynamicCache,
    "filled": lambda: filled(DynamicCache(), 3),
    "empty with a window": windowed,
    "before the window": lambda: filled(windowed(), 3),
    "at the window": lambda: filled(windowed(), WINDOW),
    "past the window": lambda: filled(windowed(), WINDOW + 5),
    "past the window step by step": lambda: filled(windowed(), WINDOW + 5, step=1),
    "one layer of two": partly,
    "keys and values of two sizes": lambda: filled(DynamicCache(), 3, heads=(4, 6)),
}


def mask_sizes(cache: Any, index: int, query: int) -> Any:
    """Return `get_mask_sizes` for the next `query` tokens, however the release wants to be asked."""
    is_old = "cache_position" in inspect.signature(cache.get_mask_sizes).parameters
    start = cache.get_seq_length(index)
    return cache.get_mask_sizes(torch.arange(start, start + query) if is_old else query, index)


ASKED = [name for name in ("dtype", "device") if hasattr(filled(DynamicCache(), 1).layers[0], name)]
"""What a layer of this release can be asked of its tensors; from 5.24 on it has no type of its own."""


def description(cache: Any) -> list[Any]:
    """Return all that callers can ask a cache."""
    layers = [
        (
            type(layer),
            getattr(layer, "sliding_window", None),
            getattr(layer, "cumulative_length", None),
            layer.is_initialized,
            [getattr(layer, name, None) for name in ASKED],
            layer.get_seq_length(),
        )
        for layer in cache.layers
    ]
    sizes = [mask_sizes(cache, index, query) for index in range(len(layers)) for query in (1, 3, WINDOW + 2)]
    return [cache.get_seq_length(), layers, sizes, {k: v for k, v in vars(cache).items() if k != "layers"}]


@pytest.mark.parametrize("name", CACHES)
def test_a_round_trip_loses_nothing(name: str) -> None:
    cache = CACHES[name]()
    expected = description(cache)
    with apply_patches(include=ID):
        leaves, spec = pytree.tree_flatten(cache)
        copy = pytree.tree_unflatten(leaves, spec)
    assert type(copy) is type(cache)
    assert copy is not cache
    assert description(copy) == description(cache) == expected
    for layer, other in zip(cache.layers, copy.layers, strict=True):
        assert layer is not other
        assert layer.keys is other.keys
        assert layer.values is other.values


@pytest.mark.parametrize("name", [name for name in CACHES if "empty" not in name and "one" not in name])
def test_a_copy_goes_on_as_the_cache_does(name: str) -> None:
    cache = CACHES[name]()
    with apply_patches(include=ID):
        copy = pytree.tree_map(torch.clone, cache)
    sizes = [(layer.keys.shape[-1], layer.values.shape[-1]) for layer in cache.layers]
    for index, (key, value) in enumerate(sizes):
        more = torch.rand(1, 2, 2, key), torch.rand(1, 2, 2, value)
        wanted, found = cache.update(*more, index), copy.update(*more, index)
        assert all(torch.equal(left, right) for left, right in zip(wanted, found, strict=True))
    assert description(copy) == description(cache)


def test_leaves_are_named_by_layer() -> None:
    with apply_patches(include=ID):
        pairs, _ = pytree.tree_flatten_with_path(filled(DynamicCache(), 3))
        partial, _ = pytree.tree_flatten_with_path(partly())
    assert [path[0].key for path, _ in pairs] == ["0.key", "0.value", "1.key", "1.value"]
    assert [path[0].key for path, _ in partial] == ["0.key", "0.value"]


@pytest.mark.parametrize("make", [DynamicCache, windowed])
def test_caches_of_two_pasts_have_equal_specs(make: Callable[[], Any]) -> None:
    with apply_patches(include=ID):
        specs = [pytree.tree_structure(filled(make(), length)) for length in (1, 3, WINDOW + 5)]
    assert specs[0] == specs[1] == specs[2]


def test_caches_of_two_layouts_have_other_specs() -> None:
    with apply_patches(include=ID):
        specs = [
            pytree.tree_structure(CACHES[name]())
            for name in ("empty", "filled", "before the window", "one layer of two")
        ]
    assert all(left != right for index, left in enumerate(specs) for right in specs[index + 1 :])


def test_a_spec_can_be_serialised() -> None:
    cache = filled(windowed(), 3)
    with apply_patches(include=ID):
        leaves, spec = pytree.tree_flatten(cache)
        again = pytree.treespec_loads(pytree.treespec_dumps(spec))
        copy = pytree.tree_unflatten(leaves, again)
    assert again == spec
    assert description(copy)[:3] == description(cache)[:3]


@pytest.mark.parametrize("position", [0, 1])
def test_a_layer_of_another_class(position: int) -> None:
    class OwnLayer(DynamicLayer):  # type: ignore[misc]
        pass

    cache = filled(DynamicCache(), 3)
    cache.layers[position] = OwnLayer()
    with apply_patches(include=ID), pytest.raises(TypeError) as caught:
        pytree.tree_flatten(cache)
    assert str(caught.value) == (
        f"spec 'dynamic-cache-pytree': layer {position} of the cache is a OwnLayer; only DynamicLayer, "
        "DynamicIndexedLayer, DynamicSlidingWindowLayer, LinearAttentionLayer, LinearAttentionAndFullAttentionLayer, "
        "LinearAttentionAndSlidingWindowAttentionLayer, DummyLayer are flattened. Pass a cache of those, or register "
        "the class as a pytree node yourself and exclude this id"
    )


class Total(torch.nn.Module):  # type: ignore[misc]
    """A module that takes a cache."""

    def forward(self, x: torch.Tensor, cache: Any) -> Any:
        """Return a sum over the first layer."""
        return x + cache.layers[0].keys.sum()


def test_a_sample_that_has_dropped_tokens_is_refused() -> None:
    cache = filled(windowed(), WINDOW + 5)
    dropped = cache.layers[0].cumulative_length - cache.layers[0].keys.shape[-2]
    assert dropped > 0
    with apply_patches(include=ID), pytest.raises(ValueError, match="has dropped") as caught:
        torch.export.export(Total(), (torch.zeros(1), cache), strict=False)
    assert (
        f"spec 'dynamic-cache-pytree': the sample cache has dropped {dropped} tokens of a sliding window ({WINDOW}), "
        "but a graph takes the full past. Make the sample cache inside apply_patches(), or with a past that is shorter "
        "than the window: the axis is dynamic"
    ) in str(caught.value)


def test_a_sample_that_was_made_inside_is_exported() -> None:
    with apply_patches():
        cache = filled(windowed(), WINDOW + 5)
        assert cache.layers[0].keys.shape[-2] == WINDOW + 5
        before = description(cache)
        program = torch.export.export(Total(), (torch.zeros(1), cache), strict=False)
        other = filled(windowed(), WINDOW + 5)
        found = program.module()(torch.zeros(1), other)
        assert description(cache) == before
    assert isinstance(cache.layers[0], DynamicSlidingWindowLayer)
    assert torch.allclose(found, other.layers[0].keys.sum())


def test_calls_are_counted() -> None:
    with apply_patches(include=ID) as report:
        assert report.used == []
        pytree.tree_flatten(DynamicCache())
        assert report.used == [ID]


def test_a_failing_registration_gives_the_other_one_back(
    make_module: Callable[..., Any], make_spec: Callable[..., PatchingSpec], snapshot: Any
) -> None:
    registered_at_import()
    before = snapshot(*TABLES)
    node = {
        "flatten_fn": lambda cache: ([], None),
        "unflatten_fn": lambda leaves, context: None,
        "to_dumpable_context": lambda context: None,
    }
    make_module("fakefactories", node=lambda original: node)
    spec = make_spec(
        "pytree(transformers.cache_utils:DynamicCache)",
        kind="pytree",
        replacement="fakefactories:node",
        requires=("transformers>=4",),
    )
    with pytest.raises(ValueError, match="must be None or registered"), apply_patches(registry=Registry([spec])):
        pytest.fail("The body must not run.")
    assert before.changes() == []
