"""A linear recurrence over tokens without a loop over them: `state[t] = decay[t] * state[t - 1] + entered[t]`.

After step k each token has what the 2**k tokens up to it bring, so 20 steps are enough for a million tokens. Only
products of decays are made, never quotients, so nothing overflows.
Source: Hillis and Steele, Data parallel algorithms, 1986, https://doi.org/10.1145/7902.7903.
"""

import operator
from collections.abc import Callable
from typing import Any

STEPS = 20
"""Steps of a graph; a call with more than 2**20 tokens gives NaN behind them, and not numbers that are wrong."""


def parallel_scan(decay: Any, entered: Any, state: Any, product: Callable[[Any, Any], Any] = operator.mul) -> Any:
    """Return the states behind each token, `(tokens, ...)`, for any number of tokens.

    Args:
        decay: what each token keeps of the state, `(tokens, ...)`.
        entered: what each token adds, of the same number of axes.
        state: the state before the first token, of the shape without tokens.
        product: what `decay` does to a state, and to the decay before it; `torch.matmul` for matrices.
    """
    import torch

    places = torch.arange(decay.shape[0], device=decay.device)
    for step in range(STEPS):
        # Of a short text the later steps have no tokens, and cost next to nothing.
        later = places[places >= 1 << step]
        kept, earlier = decay[later], later - (1 << step)
        entered = entered.index_put((later,), product(kept, entered[earlier]) + entered[later])
        decay = decay.index_put((later,), product(kept, decay[earlier]))
    is_covered = (places < 1 << STEPS).view(-1, *[1] * (decay.dim() - 1))
    return torch.where(is_covered, entered + product(decay, state), torch.nan)
