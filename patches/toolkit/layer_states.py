"""The convolution and the recurrent state of a layer of a cache, which has them from transformers 5.5 on: read and set.

They are one tensor each to 5.13, and then one for each number of a state.
"""

from collections.abc import Iterator
from typing import Any

_KINDS = (("conv_states", "conv_state"), ("recurrent_states", "recurrent_state"))
_FLAGS = {"conv_states": "is_conv_states_initialized", "recurrent_states": "is_recurrent_states_initialized"}


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
    put_state(layer, attribute, number, state)
    put_state(layer, _FLAGS[attribute], number, True)
    # Leaves of another kind than tensors (shapes, names) have no type to go by.
    if attribute == "conv_states" and hasattr(state, "new_empty"):
        layer.dtype, layer.device = state.dtype, state.device
        put_state(layer, "conv_kernel_size", number, state.shape[-1])


def state_number(name: str) -> int | None:
    """Return the number in a name that `layer_states` gives; None where it has none."""
    number = name.rpartition("_")[2]
    return int(number) if number.isdigit() else None


def put_state(layer: Any, attribute: str, number: int, value: Any) -> None:
    """Set an attribute, or its item of that number where the release has several."""
    if isinstance(getattr(layer, attribute, None), dict):
        getattr(layer, attribute)[number] = value
    else:
        setattr(layer, attribute, value)
