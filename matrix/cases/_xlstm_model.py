"""xLSTM with gates that are read: upstream begins with those that are the same for every token."""

import torch

from ._causal_lm_models import make_own_cache
from ._decoder import Decoder


def make_gated(name: str) -> Decoder:
    """Build xLSTM with random weights in its gates.

    Args:
        name: a key of `SETTINGS`.
    """
    decoder = make_own_cache(name)
    with torch.no_grad():
        for path, parameter in decoder.model.named_parameters():
            if "gate_preact" in path:
                parameter.normal_(std=0.1)
    return decoder
