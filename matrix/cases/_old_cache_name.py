"""Decoders that are given their cache by the name that it had before transformers 5.24."""

import inspect

from ._causal_lm_models import make_causal
from ._decoder import TransformersDecoder

_NAMES = {"llama": "past_key_values", "mamba": "cache_params"}


class OldNameDecoder(TransformersDecoder):
    """A causal language model whose caller goes on as in older releases."""

    @property
    def past_argument(self) -> str:  # type: ignore[override]
        return _NAMES[self.model.config.model_type]


def make_old_name(name: str) -> OldNameDecoder:
    """Build a model of `_NAMES`."""
    return OldNameDecoder(make_causal(name).model)


def has_old_name() -> bool:
    """Say whether the argument has another name in the installed transformers, and the old one still does."""
    from transformers import LlamaForCausalLM

    parameters = inspect.signature(LlamaForCausalLM.forward).parameters
    return "cache" in parameters and "past_key_values" not in parameters
