"""What is done of a stage: layers that are captured, nodes that are translated, calls that are compared."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat._extras import require

Count = Callable[[str, int, int], None]


@contextmanager
def counting(model: Any, count: Count) -> Iterator[None]:
    """Tell `count` of each layer of a model that is run, inside a `with`.

    A hook that is not on the model itself sees the calls: the model stays as it is.

    Args:
        model: an `nn.Module`.
        count: takes what is counted, how many are done, and how many there are.
    """
    module = require("torch.nn.modules.module", "torch")
    layers = _layers(model)
    if not layers:
        yield
        return

    def before(called: Any, _: Any) -> None:
        place = layers.get(id(called))
        if place is not None:
            count("layers", place, len(layers))

    handle = module.register_module_forward_pre_hook(before)
    try:
        yield
    finally:
        handle.remove()


def _layers(model: Any) -> dict[int, int]:
    """Return the number of each layer by its id: the items of the longest list of modules."""
    lists = [module for module in model.modules() if type(module).__name__ == "ModuleList"]
    longest = max(lists, key=len, default=())
    return {id(layer): number for number, layer in enumerate(longest, 1)}


@contextmanager
def counting_nodes(count: Count) -> Iterator[None]:
    """Tell `count` of each node that torch translates to ONNX, inside a `with`; some releases of torch tell none."""
    core: Any = sys.modules.get("torch.onnx._internal.exporter._core")
    name = "_handle_call_function_node_with_lowering"
    original = getattr(core, name, None)
    if original is None:
        yield
        return
    done = 0

    def translated(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal done
        done += 1
        count("nodes", done, len(getattr(node.graph, "nodes", ())))
        return original(model, node, *args, **kwargs)

    setattr(core, name, translated)
    try:
        yield
    finally:
        setattr(core, name, original)
