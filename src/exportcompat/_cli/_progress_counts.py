"""What is done of a stage: layers that are captured, nodes that are translated, calls that are compared."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from exportcompat._extras import require

Count = Callable[[str, int, int], None]


LAYERS, DECOMPOSED, TRANSLATED = "layers captured", "nodes decomposed", "nodes translated"

_PASSES = 3
"""How often torch goes through a graph to decompose it: to learn its outputs, to trace it, and to promote types."""


@contextmanager
def counting(model: Any, count: Count) -> Iterator[None]:
    """Tell `count` of each layer of a model that is captured, inside a `with`.

    A hook that is not on the model itself sees the calls: the model stays as it is.

    Args:
        model: an `nn.Module`.
        count: takes what is counted, how many are done, and how many there are.
    """
    module, compiler = require("torch.nn.modules.module", "torch"), require("torch.compiler", "torch")
    layers = _layers(model)
    seen: set[int] = set()

    def after(called: Any, *_: Any) -> None:
        if id(called) in layers and compiler.is_compiling():
            seen.add(id(called))
            count(LAYERS, len(seen), len(layers))

    handle = module.register_module_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def _layers(model: Any) -> set[int]:
    """Return the layers by their ids: the items of lists of modules, but for lists in those, as of experts."""
    lists = {name: item for name, item in model.named_modules() if type(item).__name__ == "ModuleList"}
    outer = [item for name, item in lists.items() if not any(name.startswith(f"{other}.") for other in lists)]
    return {id(layer) for item in outer for layer in item}


@contextmanager
def counting_nodes(count: Count) -> Iterator[None]:
    """Tell `count` of each node that torch decomposes and translates to ONNX, inside a `with`.

    A release of torch that calls its functions otherwise tells nothing.
    """
    core = require("torch.onnx._internal.exporter._core", "torch")
    tables = require("torch.onnx._internal.exporter._decomp", "torch")
    interpreter = require("torch.fx", "torch").Interpreter
    done = 0
    size: int | None = None

    def begun(original: Any) -> Any:
        def overloads(*args: Any, **kwargs: Any) -> Any:
            nonlocal done, size
            done = size = 0
            return original(*args, **kwargs)

        return overloads

    def decomposed(original: Any) -> Any:
        def run_node(self: Any, node: Any) -> Any:
            nonlocal done, size
            if size is not None:
                done, size = done + 1, max(size, len(node.graph.nodes))
                count(DECOMPOSED, min(done // _PASSES, size), size)
            return original(self, node)

        return run_node

    def translated(original: Any) -> Any:
        def translate(model: Any, node: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal done, size
            done, size = done + 1 if size is None else 1, None
            total = sum(item.op == "call_function" for item in node.graph.nodes)
            count(TRANSLATED, min(done, total), total)
            return original(model, node, *args, **kwargs)

        return translate

    with (
        _wrapped(tables, "get_onnx_implemented_overloads", begun),
        _wrapped(interpreter, "run_node", decomposed),
        _wrapped(core, "_handle_call_function_node_with_lowering", translated),
    ):
        yield


@contextmanager
def _wrapped(owner: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Have `wrap` of a function in its place, inside a `with`; one that is not there stays away."""
    original = getattr(owner, name, None)
    if original is None:
        yield
        return
    # With its signature and its source, by which a spec knows what it writes to.
    setattr(owner, name, wraps(original)(wrap(original)))
    try:
        yield
    finally:
        setattr(owner, name, original)
