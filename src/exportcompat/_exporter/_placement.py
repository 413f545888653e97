"""Where the weights of a model are: an export needs all of them, in one place."""

from typing import Any

from exportcompat.registry import ExportCompatError

_IN_ONE_PLACE = "load it without device_map, or with device_map='cpu'; a file does not depend on the device"


def check_placement(model: Any) -> None:
    """Refuse a model that cannot be traced where it is, before any work.

    Raises:
        ExportCompatError: weights are spread over devices, offloaded by accelerate, or on `meta`.
    """
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    name = type(model).__name__
    if "meta" in devices and _has_hooks(model):
        raise ExportCompatError(
            f"accelerate has offloaded weights of {name}, which a graph cannot load; {_IN_ONE_PLACE}"
        )
    if "meta" in devices:
        raise ExportCompatError(
            f"{name} has weights on 'meta', which have no values: there is nothing to export or to compare with; load "
            "them, or make random ones by model.to_empty(device='cpu') and model.init_weights()"
        )
    if len(devices) > 1:
        raise ExportCompatError(
            f"{name} is spread over {', '.join(devices)}, and a graph is traced on one device; {_IN_ONE_PLACE}"
        )


def _has_hooks(model: Any) -> bool:
    """Say whether accelerate loads weights when modules are called."""
    return any(hasattr(module, "_hf_hook") for module in model.modules())
