"""The two states of a layer without attention, `(batch, channels, kernel)` and the recurrent one: read, set, continue.

To 5.4 a cache has them by layer (`cache.conv_states[3]`, `cache.ssm_states[3]`); from 5.5 on a layer of the cache has
them, one tensor each to 5.13, and then one for each number of a state.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

_KINDS = (("conv_states", "conv_state"), ("recurrent_states", "recurrent_state"))
_FLAGS = {"conv_states": "is_conv_states_initialized", "recurrent_states": "is_recurrent_states_initialized"}


def while_traced(original: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    """Return `forward` of a mixer: `traced(mixer, hidden_states, cache, mask)` in a trace, otherwise `original`."""
    from ._cache_argument import cache_of
    from ._tracing import is_traced

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


def layer_states(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and tensor of each state of a layer of a cache; what has not been filled is left out."""
    for attribute, name in _KINDS:
        value = getattr(layer, attribute, None)
        numbered = value.items() if isinstance(value, dict) else [(0, value)]
        yield from (
            (name if number == 0 else f"{name}_{number}", state) for number, state in numbered if state is not None
        )


def set_layer_state(layer: Any, name: str, state: Any) -> None:
    """Set a state by the name that `layer_states` gives it."""
    attribute, number = f"{name.partition('_state')[0]}_states", state_number(name) or 0
    _put(layer, attribute, number, state)
    _put(layer, _FLAGS[attribute], number, True)
    # Leaves of another kind than tensors (shapes, names) have no type to go by.
    if attribute == "conv_states" and hasattr(state, "new_empty"):
        layer.dtype, layer.device = state.dtype, state.device
        _put(layer, "conv_kernel_size", number, state.shape[-1])


def state_number(name: str) -> int | None:
    """Return the number in a name that `layer_states` gives; None where it has none."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else None


def states(cache: Any, index: int) -> tuple[Any, Any]:
    """Return the convolution's and the recurrent state of a layer, each None where there is none yet."""
    if cache is None:
        return None, None
    if hasattr(cache, "conv_states"):
        return cache.conv_states[index], cache.ssm_states[index]
    found = dict(layer_states(cache.layers[index]))
    return found.get("conv_state"), found.get("recurrent_state")


def keep(cache: Any, index: int, conv: Any, recurrent: Any) -> None:
    """Put the states of a layer into the cache."""
    if cache is None:
        return
    if hasattr(cache, "conv_states"):
        cache.conv_states[index], cache.ssm_states[index] = conv, recurrent
        return
    layer = cache.layers[index]
    set_layer_state(layer, "conv_state", conv)
    set_layer_state(layer, "recurrent_state", recurrent)
    _put(layer, "has_previous_state", 0, True)


def convolved(convolution: Any, inputs: Any, before: Any) -> tuple[Any, Any]:
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


def unpadded(hidden: Any, mask: Any) -> Any:
    """Return `(batch, tokens, channels)` with zeros for padding; the mask may cover the past too."""
    return hidden if mask is None else hidden * mask[:, -hidden.shape[1] :, None].to(hidden.dtype)


def _put(layer: Any, attribute: str, number: int, value: Any) -> None:
    """Set an attribute, or its item of that number where the release has several."""
    if isinstance(getattr(layer, attribute, None), dict):
        getattr(layer, attribute)[number] = value
    else:
        setattr(layer, attribute, value)
