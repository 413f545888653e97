"""The two states of a layer without attention, `(batch, channels, kernel)` and the recurrent one: read, set, continue.

To 5.4 a cache has them by layer (`cache.conv_states[3]`, `cache.ssm_states[3]`); from 5.5 on a layer of the cache has
them: see `toolkit.layer_states`.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.layer_states import layer_states, put_state, set_layer_state


def traced_mixer(original: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of a mixer: `traced(mixer, hidden_states, cache, mask)` in a trace, otherwise `original`."""
    from exportcompat.patches.toolkit.cache_names import cache_of
    from exportcompat.patches.toolkit.tracing import is_traced

    signature = _signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        hidden = given["hidden_states"]
        if not is_traced(hidden):
            return original(self, *args, **kwargs)
        return traced(self, hidden, cache_of(given), given.get("attention_mask"))

    return forward


def _signature(function: Any) -> inspect.Signature:
    """Return the signature; where a decorator hides it (5.13-5.15), that of the function that it keeps."""
    found = inspect.signature(function)
    if "hidden_states" in found.parameters:
        return found
    kept = [cell.cell_contents for cell in function.__closure__ or () if inspect.isfunction(cell.cell_contents)]
    return inspect.signature(kept[0])


def read_states(cache: Any, index: int) -> tuple[Any, Any]:
    """Return the convolution's and the recurrent state of a layer, each None where there is none yet."""
    if cache is None:
        return None, None
    if hasattr(cache, "conv_states"):
        return cache.conv_states[index], cache.ssm_states[index]
    found = dict(layer_states(cache.layers[index]))
    return found.get("conv_state"), found.get("recurrent_state")


def store_states(cache: Any, index: int, conv: Any, recurrent: Any) -> None:
    """Put the states of a layer into the cache."""
    if cache is None:
        return
    if hasattr(cache, "conv_states"):
        cache.conv_states[index], cache.ssm_states[index] = conv, recurrent
        return
    layer = cache.layers[index]
    set_layer_state(layer, "conv_state", conv)
    set_layer_state(layer, "recurrent_state", recurrent)
    put_state(layer, "has_previous_state", 0, True)


def causal_convolution(convolution: Any, inputs: Any, before: Any) -> tuple[Any, Any]:
    """Return the causal convolution of `(batch, channels, tokens)` behind a state, and the next state.

    The state is the last `kernel` inputs; none at all is the same as zeros.
    """
    import torch

    kernel = convolution.weight.shape[-1]
    if before is None:
        before = inputs.new_zeros(inputs.shape[0], inputs.shape[1], kernel)
    whole = torch.cat([before.to(inputs.dtype), inputs], -1)
    outputs = torch.nn.functional.conv1d(
        whole[..., 1:], convolution.weight, convolution.bias, groups=convolution.weight.shape[0]
    )
    return outputs, whole[..., -kernel:]


def without_padding(hidden: Any, mask: Any) -> Any:
    """Return `(batch, tokens, channels)` with zeros for padding; the mask may cover the past too."""
    return hidden if mask is None else hidden * mask[:, -hidden.shape[1] :, None].to(hidden.dtype)
