"""The cases: models that are built from a configuration with a fixed seed, two layers or more, random weights."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from exportcompat._decoder import CACHE_AXES, MASK_AXES, TOKEN_AXES
from exportcompat.registry import ExportCompatError

_SEED = 20260101
_SIZES = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    # Larger than usual, so that a wrong mask or frequency moves the logits by much more than the tolerance.
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


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


@dataclass(frozen=True)
class Case:
    """One reference model.

    Attributes:
        name: its name in results.
        title: what it is, for people.
        make: builds the decoder.
        shown: part of the quickstart.
        exclude: ids of specs that are left out, for a user who does without them.
        around: makes a context in which the case is exported.
    """

    name: str
    title: str
    make: "Callable[[], Decoder]"
    shown: bool = True
    exclude: tuple[str, ...] = ()
    around: Callable[[], AbstractContextManager[None]] = nullcontext

    def decoder(self) -> "Decoder":
        """Build the model, the same one each time, in evaluation mode."""
        import torch

        torch.manual_seed(_SEED)
        decoder = self.make()
        decoder.model.eval()
        return decoder


class Decoder:
    """A model with the calls that export and comparison need.

    Args:
        model: the module.
    """

    vocabulary = 128

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def layers(self) -> int:
        """Number of layers with a cache."""
        raise NotImplementedError

    def cache(self, batch: int, past: int) -> Any:
        """Return a random cache of `past` tokens; its tensors have length 0 if there are none."""
        raise NotImplementedError

    def cache_axes(self) -> Any:
        """Return the dynamic axes of a cache, in the structure that torch wants."""
        raise NotImplementedError

    def reference(self) -> "Decoder":
        """Return a copy whose state no call of this one changes."""
        return type(self)(copy.deepcopy(self.model))

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return logits and cache of an eager call."""
        raise NotImplementedError

    def sample(self, sample: Sample) -> dict[str, Any]:
        """Return keyword arguments of `forward` of the given shape."""
        import torch

        past = sample.past or 0
        shape = (sample.batch, sample.new)
        inputs = {
            "input_ids": torch.randint(3, self.vocabulary, shape, generator=_generator()),
            "attention_mask": torch.ones(sample.batch, past + sample.new, dtype=torch.int64),
            "position_ids": torch.arange(past, past + sample.new).expand(shape).contiguous(),
        }
        return inputs if sample.past is None else {**inputs, "past_key_values": self.cache(sample.batch, past)}

    def dynamic_shapes(self, sample: Sample) -> dict[str, Any]:
        """Return the dynamic axes of `sample(sample)`."""
        shapes: dict[str, Any] = {
            "input_ids": TOKEN_AXES,
            "attention_mask": MASK_AXES,
            "position_ids": TOKEN_AXES,
        }
        return shapes if sample.past is None else {**shapes, "past_key_values": self.cache_axes()}


class PlainDecoder(Decoder):
    """The tiny GPT; its cache is a list of pairs."""

    @property
    def layers(self) -> int:
        return int(self.model.layers)

    def cache(self, batch: int, past: int) -> Any:
        return self.model.empty_cache(batch, past, _generator())

    def cache_axes(self) -> Any:
        return [(CACHE_AXES, CACHE_AXES)] * self.layers

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        import torch

        cache = cache if cache is not None else self.model.empty_cache(inputs["input_ids"].shape[0])
        with torch.no_grad():
            return self.model(**inputs, past_key_values=cache)  # type: ignore[no-any-return]


class OpenPlainDecoder(PlainDecoder):
    """The tiny GPT with an open signature: torch wants the shapes of what is behind `**` under its name."""

    def dynamic_shapes(self, sample: Sample) -> dict[str, Any]:
        shapes = super().dynamic_shapes(sample)
        extra = {name: shapes.pop(name) for name in ("position_ids", "past_key_values") if name in shapes}
        return {**shapes, "kwargs": extra}


class TransformersDecoder(Decoder):
    """A causal language model of transformers; its cache is a `DynamicCache` as the model itself makes it."""

    @property
    def layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    def cache(self, batch: int, past: int) -> Any:
        import torch

        config = self.model.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape, generator = (batch, config.num_key_value_heads, past, size), _generator()
        cache = self.empty_cache()
        for index in range(self.layers):
            pair = (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator))
            cache.update(*pair, index)
        return cache

    def cache_axes(self) -> Any:
        return [CACHE_AXES] * (2 * self.layers)

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        import torch

        cache = self.empty_cache() if cache is None else cache
        with torch.no_grad():
            output = self.model(**inputs, past_key_values=cache, use_cache=True)
        return output.logits, output.past_key_values

    def empty_cache(self) -> Any:
        """Return a cache as the model itself would make it."""
        from transformers import DynamicCache

        takes_config = "config" in inspect.signature(DynamicCache.__init__).parameters
        return DynamicCache(config=self.model.config) if takes_config else DynamicCache()


class PairsDecoder(TransformersDecoder):
    """A causal language model behind a wrapper that takes pairs of tensors and fills a cache with them itself."""

    @property
    def layers(self) -> int:
        return int(self.model.inner.config.num_hidden_layers)

    def cache(self, batch: int, past: int) -> Any:
        from ._pairs import pairs

        return pairs(TransformersDecoder(self.model.inner).cache(batch, past))

    def cache_axes(self) -> Any:
        return [(CACHE_AXES, CACHE_AXES)] * self.layers

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        return TransformersDecoder(self.model.inner)(inputs, cache)


@contextmanager
def _official_registration() -> Iterator[None]:
    """Let transformers register `DynamicCache` as a pytree node, and take that back afterwards."""
    from exportcompat.registry import parse_target

    (slot,) = parse_target("pytree(transformers.cache_utils:DynamicCache)", "official").slots(())
    before = slot.read()
    try:
        from transformers.integrations.executorch import register_dynamic_cache_export_support
    except ImportError:
        # Releases to 4.55 register the class when they are imported.
        yield
        return
    register_dynamic_cache_export_support()
    try:
        yield
    finally:
        slot.restore(before)


def _generator() -> Any:
    import torch

    return torch.Generator().manual_seed(_SEED)


def _tiny_gpt(variant: str = "") -> Decoder:
    from ._variants import OpenDecoder, StatefulDecoder, VmapGPT
    from .models._decoder import GPTDecoder
    from .models.tiny_gpt import GPTConfig, TinyGPT

    gpt = VmapGPT if variant == "vmap" else TinyGPT
    decoder = {"stateful": StatefulDecoder, "open": OpenDecoder}.get(variant, GPTDecoder)
    plain = OpenPlainDecoder if variant == "open" else PlainDecoder
    return plain(decoder(gpt(GPTConfig(128, 32, n_layers=2, n_heads=4, n_positions=256, n_kv_heads=2))))


def _pairs(name: str, **settings: Any) -> Decoder:
    from ._pairs import Pairs

    return PairsDecoder(Pairs(_causal(name, **settings)))


def _causal(name: str, **settings: Any) -> Decoder:
    import transformers

    config = getattr(transformers, f"{name}Config")(**{**_SIZES, **settings})
    return TransformersDecoder(getattr(transformers, f"{name}ForCausalLM")(config))


_LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [4.0, 3.0, 2.0, 1.5]}
_PHI3 = {"original_max_position_embeddings": 16, "rope_scaling": _LONGROPE}
_DYNAMIC = {"max_position_embeddings": 16, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}

_ALL = (
    Case("tiny_gpt", "tiny GPT (plain torch)", _tiny_gpt),
    Case("llama", "Llama", partial(_causal, "Llama")),
    Case("mistral_window", "Mistral, window 8", partial(_causal, "Mistral", sliding_window=8)),
    Case("gemma2_window", "Gemma2, window 8", partial(_causal, "Gemma2", head_dim=8, sliding_window=8)),
    Case("phi3_longrope", "Phi3, longrope, limit 16", partial(_causal, "Phi3", **_PHI3)),
    Case("llama_dynamic", "Llama, dynamic NTK, limit 16", partial(_causal, "Llama", **_DYNAMIC)),
    Case("mixtral", "Mixtral, 4 experts", partial(_causal, "Mixtral", num_local_experts=4), shown=False),
    Case(
        "gpt_oss",
        "gpt-oss, 4 experts with biases, window 8, attention sinks",
        partial(_causal, "GptOss", num_local_experts=4, num_experts_per_tok=2, head_dim=8, sliding_window=8),
        shown=False,
    ),
    Case("llama_pairs", "Llama, cache filled by a wrapper", partial(_pairs, "Llama"), shown=False),
    Case(
        "llama_official",
        "Llama, with transformers' own registration",
        partial(_causal, "Llama"),
        shown=False,
        exclude=("dynamic-cache-pytree",),
        around=_official_registration,
    ),
    Case("stateful_gpt", "tiny GPT that stores a tensor", partial(_tiny_gpt, "stateful"), shown=False),
    Case("open_gpt", "tiny GPT that takes its cache through **kwargs", partial(_tiny_gpt, "open"), shown=False),
    Case("vmap_gpt", "tiny GPT, mask by vmap", partial(_tiny_gpt, "vmap"), shown=False),
)
CASES: Mapping[str, Case] = {case.name: case for case in _ALL}


def find_case(name: str) -> Case:
    """Return a case.

    Raises:
        ExportCompatError: there is no case of that name; the message lists them.
    """
    if name not in CASES:
        raise ExportCompatError(f"there is no case {name!r}; cases: {', '.join(CASES)}")
    return CASES[name]


def parse_proof(text: str) -> tuple[Case, Sample]:
    """Parse the name of a proof: a case, and a sample behind a colon where it is not the usual one.

    Raises:
        ExportCompatError: the case or the sample does not exist.
    """
    name, _, sample = text.partition(":")
    return find_case(name), Sample.parse(sample) if sample else Sample()
