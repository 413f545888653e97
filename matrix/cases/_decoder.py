"""Decoders with the calls that export and comparison need: samples, axes, names, and eager calls with a cache."""

import copy
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from exportcompat._observer import flatten
from exportcompat._verification import (
    CACHE_AXES,
    LOGITS,
    MASK_AXES,
    PAST_ARGUMENT,
    TOKEN_AXES,
    cache_names,
    dotted,
    present_name,
)
from exportcompat.registry import ExportCompatError

SEED = 20260101


@dataclass(frozen=True)
class Sample:
    """The shape of the sample that is traced.

    Attributes:
        batch: number of sequences.
        past: tokens in the cache; None means that no cache is passed.
        new: tokens in the call.
    """

    batch: int = 2
    past: int | None = 5
    new: int = 3

    def __str__(self) -> str:
        return f"{self.batch},{'none' if self.past is None else self.past},{self.new}"

    @classmethod
    def parse(cls, text: str) -> "Sample":
        """Parse `batch,past,new`, such as `2,5,3` or `2,none,4`.

        Raises:
            ExportCompatError: `text` has another form.
        """
        parts = text.split(",")
        if len(parts) != 3 or not all(part.isdigit() or (part == "none" and i == 1) for i, part in enumerate(parts)):
            raise ExportCompatError(f"{text!r} is no sample; write batch,past,new such as 2,5,3 or 2,none,4")
        return cls(int(parts[0]), None if parts[1] == "none" else int(parts[1]), int(parts[2]))


class Decoder:
    """A model with the calls that export and comparison need.

    Args:
        model: the module.
    """

    vocabulary = 128
    past_argument = PAST_ARGUMENT
    """The argument of `forward` that takes the cache."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def cache(self, batch: int, past: int) -> Any:
        """Return a cache of `past` tokens; its tensors have length 0 if there are none."""
        raise NotImplementedError

    def cache_axes(self, cache: Any) -> Any:
        """Return the dynamic axes of a cache, in the structure that torch wants."""
        raise NotImplementedError

    def cache_names(self, cache: Any) -> list[str]:
        """Return the names of the leaves of a cache in a file."""
        raise NotImplementedError

    def reference(self) -> "Decoder":
        """Return a copy whose state no call of this one changes."""
        return type(self)(copy.deepcopy(self.model))

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return logits and cache of an eager call."""
        raise NotImplementedError

    def others(self, batch: int, past: int) -> Mapping[str, Any]:
        """Return the inputs of a call in a comparison besides the text."""
        return {}

    def tokens(self, sample: Sample) -> dict[str, Any]:
        """Return the keyword arguments of `forward` besides the cache."""
        import torch

        past = sample.past or 0
        shape = (sample.batch, sample.new)
        return {
            "input_ids": torch.randint(3, self.vocabulary, shape, generator=generator()),
            "attention_mask": torch.ones(sample.batch, past + sample.new, dtype=torch.int64),
            "position_ids": torch.arange(past, past + sample.new).expand(shape).contiguous(),
        }

    def sample(self, sample: Sample) -> dict[str, Any]:
        """Return keyword arguments of `forward` of the given shape."""
        inputs = self.tokens(sample)
        return inputs if sample.past is None else {**inputs, self.past_argument: self.cache(sample.batch, sample.past)}

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the dynamic axes of a sample."""
        axes = {"attention_mask": MASK_AXES}
        return {
            name: self.cache_axes(value) if name == self.past_argument else axes.get(name, TOKEN_AXES)
            for name, value in inputs.items()
        }

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names of the inputs and of the outputs of a file that is exported from a sample."""
        tokens = [name for name in inputs if name != self.past_argument]
        has_past = self.past_argument in inputs
        cache = inputs[self.past_argument] if has_past else self.cache(2, 2)
        names = self.cache_names(cache)
        return [*tokens, *(names if has_past else ())], [LOGITS, *map(present_name, names)]


class PlainDecoder(Decoder):
    """The tiny GPT; its cache is a list of pairs."""

    def cache(self, batch: int, past: int) -> Any:
        return self.model.empty_cache(batch, past, generator())

    def cache_axes(self, cache: Any) -> Any:
        return [(CACHE_AXES, CACHE_AXES) for _ in cache]

    def cache_names(self, cache: Any) -> list[str]:
        return cache_names(f"{PAST_ARGUMENT}.{{}}.{{}}", len(cache))

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        import torch

        cache = cache if cache is not None else self.model.empty_cache(inputs["input_ids"].shape[0])
        with torch.no_grad():
            return self.model(**inputs, past_key_values=cache)  # type: ignore[no-any-return]


class OpenPlainDecoder(PlainDecoder):
    """The tiny GPT with an open signature: torch wants the shapes of what is behind `**` under its name."""

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        shapes = super().dynamic_shapes(inputs)
        extra = {name: shapes.pop(name) for name in ("position_ids", PAST_ARGUMENT) if name in shapes}
        return {**shapes, "kwargs": extra}


class TransformersDecoder(Decoder):
    """A causal language model of transformers, with the cache that its own release would use.

    What a cache holds, and which of its axes grow, is read off caches that the model has filled.
    """

    _arguments: tuple[str, ...] = ("input_ids", "attention_mask", "position_ids")

    @property
    def past_argument(self) -> str:  # type: ignore[override]
        # Mamba's own caches and outputs have another name to 5.23, and those of all models from 5.24 on.
        return next((name for name in ("cache", "cache_params") if name in self._parameters), PAST_ARGUMENT)

    def tokens(self, sample: Sample) -> dict[str, Any]:
        return self._accepted(super().tokens(sample))

    def cache(self, batch: int, past: int) -> Any:
        with _own_random_state():
            reference = type(self)(copy.deepcopy(self.model))
            _, cache = reference._cached(self.tokens(Sample(batch, None, past or 1)), None)
        return cache if past else _emptied(cache)

    def cache_axes(self, cache: Any) -> Any:
        shapes = [_shapes(self.cache(batch, past)) for batch, past in ((2, 4), (3, 4), (2, 5))]
        tree, _ = flatten(PAST_ARGUMENT, cache)
        return tree.shapes(lambda path: _varied(*(found.get(path, ()) for found in shapes)))

    def cache_names(self, cache: Any) -> list[str]:
        return [dotted(path) for path in flatten(PAST_ARGUMENT, cache)[0].leaves()]

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        # `HybridCache` is wrong for a chunk beyond the window, and `DynamicCache` for these models before 4.53.
        is_hybrid = getattr(self.model.config, "cache_implementation", None) == "hybrid"
        return self._recomputed(inputs, cache) if is_hybrid or self._is_recurrent else self._cached(inputs, cache)

    @property
    def _is_recurrent(self) -> bool:
        """Some layers have states; upstream continues from those with one token at a time, in some releases."""
        return any(hasattr(module, "A_log") for module in self.model.modules())

    def _cached(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        import torch

        cache = self.empty_cache(inputs["input_ids"].shape[0]) if cache is None else cache
        with torch.no_grad():
            output = self.model(**self._accepted(inputs), **{self.past_argument: cache}, use_cache=True)
        return output.logits, output[self.past_argument]

    def _recomputed(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Call the model without a cache on everything so far, which stands in place of the cache."""
        import torch

        parts = [inputs] if cache is None else [cache, inputs]
        names = [name for name in ("input_ids", "position_ids") if name in inputs]
        whole = {name: torch.cat([part[name] for part in parts], 1) for name in names}
        whole |= {name: inputs[name] for name in ("attention_mask",) if name in inputs}
        # Mamba layers of some releases forget about padding if there is one sequence only.
        twice = {name: torch.cat([item, item]) for name, item in self._accepted(whole).items()}
        with torch.no_grad():
            logits = self.model(**twice, use_cache=False).logits
        return logits[: len(logits) // 2, -inputs["input_ids"].shape[1] :], whole

    def empty_cache(self, batch: int) -> Any:
        """Return a cache as `generate` makes it; None where the model makes it itself, or has tuples."""
        from transformers import DynamicCache

        made = getattr(sys.modules[type(self.model).__module__], "HybridMambaAttentionDynamicCache", None)
        if made is not None:
            return made(self.model.config, batch, self.model.dtype)
        if getattr(self.model, "_supports_cache_class", True) is False or self.past_argument == "cache_params":
            return None
        takes_config = "config" in inspect.signature(DynamicCache.__init__).parameters
        return DynamicCache(config=self.model.config) if takes_config else DynamicCache()

    def _accepted(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in inputs.items() if name in self._parameters and name in self._arguments}

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self.model.forward).parameters


class StaticDecoder(TransformersDecoder):
    """A causal language model with a cache of fixed size, `LENGTH` tokens."""

    LENGTH = 64
    CLASS = "StaticCache"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        # Whoever cannot make the cache has no such decoder.
        self.empty_cache(1)

    _arguments = (*TransformersDecoder._arguments, "cache_position")

    def tokens(self, sample: Sample) -> dict[str, Any]:
        import torch

        past = sample.past or 0
        # Before 5.4 the model is told where its tokens go; later the cache itself counts.
        position = {"cache_position": torch.arange(past, past + sample.new)}
        return {**super().tokens(sample), **self._accepted(position)}

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        position = {"cache_position": {0: "sequence"}} if "cache_position" in inputs else {}
        return {**super().dynamic_shapes(inputs), **position}

    def cache(self, batch: int, past: int) -> Any:
        from torch.utils._pytree import tree_map

        from exportcompat import apply_patches

        cache = super().cache(batch, past or 1)
        with apply_patches():
            return cache if past else tree_map(lambda leaf: leaf * 0, cache)

    def empty_cache(self, batch: int) -> Any:
        import transformers.cache_utils as caches

        cls = getattr(caches, self.CLASS)
        known = inspect.signature(cls.__init__).parameters
        # 4.45-4.48 take either name of the batch and warn about the older one.
        size = "batch_size" if "batch_size" in known else "max_batch_size"
        options = {size: batch, "max_cache_len": self.LENGTH, "device": "cpu", "dtype": self.model.dtype}
        is_open = "kwargs" in known
        return cls(config=self.model.config, **{name: options[name] for name in options if is_open or name in known})

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        return self._cached(inputs, cache)


class SlidingDecoder(StaticDecoder):
    """A causal language model whose layers all keep a window; `LENGTH` must fit in."""

    CLASS = "SlidingWindowCache"


class HybridDecoder(StaticDecoder):
    """A causal language model of which some layers keep a window; `LENGTH` must fit in."""

    CLASS = "HybridCache"


class PairsDecoder(TransformersDecoder):
    """A causal language model behind a wrapper that takes pairs of tensors and fills a cache with them itself."""

    def cache(self, batch: int, past: int) -> Any:
        from ._pairs_wrapper import pairs

        return pairs(TransformersDecoder(self.model.inner).cache(batch, past))

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        return TransformersDecoder(self.model.inner)(inputs, cache)


def generator() -> Any:
    """Return torch's generator of random numbers, seeded."""
    import torch

    return torch.Generator().manual_seed(SEED)


@contextmanager
def _own_random_state() -> Iterator[None]:
    import torch

    with torch.random.fork_rng(devices=[]):
        yield


def _emptied(cache: Any) -> Any:
    """Return a filled cache cut to length 0; states that do not grow are zeros."""
    from torch.utils._pytree import tree_map

    from exportcompat import apply_patches

    with apply_patches():
        return tree_map(lambda leaf: leaf[:, :, :0] if leaf.dim() == 4 else leaf * 0, cache)


def _shapes(cache: Any) -> dict[str, tuple[int, ...]]:
    _, leaves = flatten(PAST_ARGUMENT, cache)
    return {path: tuple(leaf.shape) for path, leaf in leaves.items() if hasattr(leaf, "shape")}


def _varied(first: tuple[int, ...], batch: tuple[int, ...], past: tuple[int, ...]) -> dict[int, str]:
    """Return the names of the axes that change with the batch, and with the past."""
    rows = enumerate(zip(first, batch, past, strict=True))
    found = {axis: ("batch" if b != a else "", "past_sequence" if c != a else "") for axis, (a, b, c) in rows}
    return {axis: "_".join(filter(None, names)) for axis, names in found.items() if any(names)}
