"""A captured program as a digest: the same for two programs that an exporter of ONNX cannot tell apart.

The names of values and the lines of the model that they come from are left out. So are assertions about sizes, which
the exporter removes, with the sizes that are computed for them alone, and weights and constants that no node reads.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

_SYMBOL = re.compile(r"\b[suz]f?\d+\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def digest_of(texts: Iterable[str]) -> str:
    """Return a digest of texts in this order."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def program_digest(program: Any) -> str:
    """Return the digest of a `torch.export.ExportedProgram`, with the numbers of its weights, buffers and constants."""
    return digest_of(program_lines(program))


def program_lines(program: Any) -> Iterator[str]:
    """Yield what the digest of a program is made of."""
    symbols, signature = _Symbols(), program.graph_signature
    lifted = {item.arg.name: item for item in signature.input_specs if item.target is not None}
    unread = {node.name for node in program.graph.nodes if node.name in lifted and not node.users}
    yield from _graph_lines(program.graph_module, symbols, unread)
    for item in signature.input_specs:
        if item.arg.name not in unread:
            yield f"in {item.kind} {item.target} {item.persistent}"
    yield from (f"out {item.kind} {item.target}" for item in signature.output_specs)
    # A range of what no value has does not count.
    ranges = {str(name): (item.lower, item.upper) for name, item in program.range_constraints.items()}
    yield from sorted(f"range {symbols(name)} {low} {high}" for name, (low, high) in ranges.items() if name in symbols)
    read = {item.target for name, item in lifted.items() if name not in unread}
    tables = {**program.state_dict, **program.constants}
    yield from (f"{name} {value_digest(tables[name])}" for name in sorted(read & tables.keys()))
    yield from (_ADDRESS.sub("", f"tree {item}") for item in (program.call_spec.in_spec, program.call_spec.out_spec))


def value_digest(value: Any) -> str:
    """Return a digest of a tensor: its type, its shape and its bits; of anything else its class."""
    import torch

    if not isinstance(value, torch.Tensor):
        return type(value).__qualname__
    plain = value.detach().cpu().contiguous()
    bits = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(bits).hexdigest()}"


class _Symbols:
    """Gives each symbol of a size a number, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def __call__(self, text: Any) -> str:
        return _SYMBOL.sub(lambda found: f"s<{self._numbers.setdefault(found[0], len(self._numbers))}>", str(text))


def _graph_lines(module: Any, symbols: _Symbols, unread: Collection[str] = ()) -> Iterator[str]:
    """Yield a line for each node that counts; the graphs of branches and loops come where they are named."""
    kept = [node for node in _kept(list(module.graph.nodes)) if node.name not in unread]
    numbers = {node: number for number, node in enumerate(kept)}
    for node in kept:
        if node.op == "get_attr":
            yield from _attribute_lines(module, node.target, symbols)
        target = node.target if node.op in ("call_function", "call_method") else ""
        arguments = _text((node.args, node.kwargs), numbers, symbols)
        yield f"{node.op} {_name(target)} {arguments} -> {_type(node.meta.get('val'), symbols)}"


def _attribute_lines(module: Any, target: str, symbols: _Symbols) -> Iterator[str]:
    value = module
    for name in target.split("."):
        value = getattr(value, name)
    if hasattr(value, "graph"):
        yield from ("begin", *_graph_lines(value, symbols), "end")
    else:
        yield f"attribute {value_digest(value)}"


def _kept(nodes: list[Any]) -> list[Any]:
    """Return the nodes without assertions, and without sizes that nothing else uses."""
    dropped: set[Any] = set()
    for node in reversed(nodes):
        is_used = any(user not in dropped for user in node.users)
        if _is_assertion(node) or (node.op == "call_function" and not is_used and _is_size(node.meta.get("val"))):
            dropped.add(node)
    return [node for node in nodes if node not in dropped]


def _is_assertion(node: Any) -> bool:
    name = _name(node.target) if node.op == "call_function" else ""
    return name.startswith(("aten._assert_", "aten.sym_constrain_range"))


def _is_size(value: Any) -> bool:
    import torch

    return isinstance(value, int | float | torch.SymInt | torch.SymBool | torch.SymFloat)


def _name(target: Any) -> str:
    return target if isinstance(target, str) else _ADDRESS.sub("", str(target))


def _type(value: Any, symbols: _Symbols) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{symbols(tuple(value.shape))}"
    if isinstance(value, list | tuple):
        return f"({', '.join(_type(item, symbols) for item in value)})"
    return symbols(value) if _is_size(value) else type(value).__name__


def _text(value: Any, numbers: Mapping[Any, int], symbols: _Symbols) -> str:
    """Return arguments as a text, with the number of a node in its place."""
    if _is_node(value):
        return f"%{numbers[value]}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_text(item, numbers, symbols)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, Collection) and not isinstance(value, str):
        return f"{type(value).__name__}({', '.join(_text(item, numbers, symbols) for item in value)})"
    if isinstance(value, slice):
        return f"slice{_text((value.start, value.stop, value.step), numbers, symbols)}"
    return _ADDRESS.sub("", symbols(repr(value) if isinstance(value, str) else value))


def _is_node(value: Any) -> bool:
    from torch.fx import Node

    return isinstance(value, Node)
