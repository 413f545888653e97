"""The reference models: each is built from a configuration, two layers or more, with random weights."""

import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from exportcompat._observer import mask_makers, masks_of_last_keys

from ._decoder import Decoder, HybridDecoder, PairsDecoder, SlidingDecoder, StaticDecoder, TransformersDecoder
from .causal_lm import SETTINGS, SIZES


def exists(name: str) -> bool:
    """Say whether the installed transformers has a model."""
    return _config_class(name) is not None


def _config_class(name: str) -> Any:
    import transformers

    _, prefix, _ = SETTINGS[name]
    return next(
        (found for suffix in ("TextConfig", "Config") if (found := getattr(transformers, prefix + suffix, None))), None
    )


def make_causal(name: str, attention: str | None = None, **settings: Any) -> Decoder:
    """Build a causal language model of transformers.

    Args:
        name: a key of `SETTINGS`.
        attention: implementation of attention; None for the default.
        settings: what the configuration has beside or instead of `SETTINGS`.
    """
    from transformers import AutoModelForCausalLM

    config = _config_class(name)(**{**SIZES, **SETTINGS[name][2], **settings})
    options = {} if attention is None else {"attn_implementation": attention}
    return TransformersDecoder(AutoModelForCausalLM.from_config(config, **options))


class RecomputedDecoder(TransformersDecoder):
    """A causal language model that in some releases is wrong on its own cache; it is compared with whole texts."""

    _is_recurrent = True


class LastKeysDecoder(TransformersDecoder):
    """A causal language model that in some releases makes masks of the first tokens for the last keys of its cache."""

    def _cached(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        with masks_of_last_keys(mask_makers(self.model, getattr(cache, "layers", ())), cache):
            return super()._cached(inputs, cache)


class OwnCacheDecoder(RecomputedDecoder):
    """A causal language model whose layers have states, with a cache of its own class in some releases."""

    def empty_cache(self, batch: int) -> Any:
        module = sys.modules[type(self.model).__module__]
        own = [value for name, value in vars(module).items() if _is_own_cache(name, value, module.__name__)]
        if not own:
            return super().empty_cache(batch)
        config, known = self.model.config, inspect.signature(own[0].__init__).parameters
        options = {"config": config, "batch_size": batch, "max_batch_size": batch, "dtype": self.model.dtype}
        options["devices"] = ["cpu"] * config.num_hidden_layers
        return own[0](**{name: value for name, value in options.items() if name in known})


class EndToEndDecoder(RecomputedDecoder):
    """A causal language model that is exported end to end alone: what it has for a cache, nobody brings along."""

    def cache(self, batch: int, past: int) -> None:
        """Return nothing."""


def _is_own_cache(name: str, value: Any, module: str) -> bool:
    return name.endswith("Cache") and getattr(value, "__module__", None) == module


def make_recomputed(name: str, attention: str | None = None) -> Decoder:
    """Build a causal language model that in some releases is wrong on its own cache."""
    return RecomputedDecoder(make_causal(name, attention).model)


def make_with_last_keys(name: str, attention: str | None = None) -> Decoder:
    """Build a causal language model whose masks are those of the first tokens in some releases."""
    return LastKeysDecoder(make_causal(name, attention).model)


def make_end_to_end(name: str) -> Decoder:
    """Build a causal language model whose cache is of no class."""
    return EndToEndDecoder(make_causal(name).model)


def make_unlimited(name: str) -> Decoder:
    """Build a causal language model whose configuration refuses a limit of its positions."""
    from transformers import AutoModelForCausalLM

    sizes = {field: size for field, size in SIZES.items() if field != "max_position_embeddings"}
    config = _config_class(name)(**{**sizes, **SETTINGS[name][2]})
    return EndToEndDecoder(AutoModelForCausalLM.from_config(config))


def make_own_cache(name: str, attention: str | None = None) -> Decoder:
    """Build a causal language model whose cache is of its own class in some releases."""
    return OwnCacheDecoder(make_causal(name, attention).model)


def make_zamba(name: str, attention: str | None = None) -> Decoder:
    """Build Zamba, whose layers without attention have another name before 5.0, and want their kernels there."""
    older = {"layers_block_type": ["mamba", "hybrid", "hybrid"], "use_mamba_kernels": False}
    is_newer = "layers_block_type" in inspect.signature(_config_class(name)).parameters
    return OwnCacheDecoder(make_causal(name, attention, **({} if is_newer else older)).model)


def make_chunks(name: str, chunk: str) -> Decoder:
    """Build a causal language model whose scan is in chunks of 64 tokens: more than are traced, less than are run.

    Args:
        name: a key of `SETTINGS`.
        chunk: what its configuration calls the tokens of a chunk.
    """
    settings: dict[str, Any] = {chunk: 64}
    return OwnCacheDecoder(make_causal(name, **settings).model)


def make_looped(name: str) -> Decoder:
    """Build a causal language model of transformers 5 that runs its experts in a loop."""
    from transformers import AutoModelForCausalLM

    config = _config_class(name)(**{**SIZES, **SETTINGS[name][2]})
    return TransformersDecoder(AutoModelForCausalLM.from_config(config, experts_implementation="eager"))


def make_static(name: str, decoder: type[StaticDecoder] = StaticDecoder, **settings: Any) -> Decoder:
    """Build a causal language model whose cache has a fixed size."""
    return decoder(make_causal(name, **settings).model)


def make_sliding_static(name: str, **settings: Any) -> Decoder:
    """Build a causal language model whose cache has a fixed size, all of it for a window."""
    return make_static(name, SlidingDecoder, **settings)


def make_hybrid_static(name: str, **settings: Any) -> Decoder:
    """Build a causal language model whose cache has a fixed size, some of it for a window."""
    return make_static(name, HybridDecoder, **settings)


def has_chunk_scan(name: str, package: str) -> bool:
    """Say whether a model of Mamba2 layers has its scan as a function; before, eager is wrong beyond one chunk."""
    module = f"transformers.models.{package}.modeling_{package}"
    return exists(name) and hasattr(importlib.import_module(module), "mamba2_chunk_scan")


def make_pairs(name: str) -> Decoder:
    """Build a causal language model behind a wrapper that takes pairs of tensors."""
    from ._pairs_wrapper import Pairs

    return PairsDecoder(Pairs(make_causal(name)))
