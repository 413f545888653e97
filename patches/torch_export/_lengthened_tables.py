"""Tables that a module lengthens by itself: in a capture each call finds none, and computes those of its length."""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

from exportcompat.patches.toolkit.module_state import preserved

_SHORTEST = -1
"""A length that no call has: not equal to any, and below all of them."""

_RESET = "original_max_seq_len"
"""Who has this goes back to other frequencies for a short call, which `rotary-frequencies` is for."""

_EXTEND = "extend_"


@contextmanager
def computing_tables(model: Any) -> Iterator[None]:
    """Let `forward` of modules with such tables find none, until the end; they have afterwards what they had."""
    with ExitStack() as stack:
        for module in model.modules():
            # torch takes a buffer that the model itself sets, and not a part of it, for a result of the graph.
            if module is not model and (lengths_of(module) or tables_of(module)):
                stack.enter_context(preserved(module))
                module.__dict__["forward"] = _without_tables(module, module.forward)
        yield


def lengths_of(module: Any) -> list[str]:
    """Return the attributes that say how long a module's tables are: numbers that it compares and sets."""
    values, cls = vars(module), cast("Hashable", type(module))
    found = [name for name, value in values.items() if type(value) is int and "cached" in name]
    return [name for name in found if _RESET not in values and name in _compared_and_set(cls)]


def tables_of(module: Any) -> list[str]:
    """Return the tensors that a method of a module lengthens: `pe`, if there is `extend_pe`."""
    tensors = {**module._buffers, **vars(module)}
    return [
        name
        for name, table in tensors.items()
        if table is not None and not isinstance(table, (int, str)) and hasattr(type(module), _EXTEND + name)
    ]


def _without_tables(module: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    lengths, tables = lengths_of(module), tables_of(module)

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with preserved(module):
            module.__dict__.update(dict.fromkeys(lengths, _SHORTEST))
            for name in tables:
                (module._buffers if name in module._buffers else module.__dict__)[name] = None
            return original(*args, **kwargs)

    return forward


@functools.lru_cache(maxsize=256)
def _compared_and_set(cls: Any) -> frozenset[str]:
    """Return the attributes that an `if` of a class compares, and that it sets after it is made."""
    compared: set[str] = set()
    assigned: set[str] = set()
    for method in _methods(cls):
        for node in ast.walk(method):
            if isinstance(node, ast.If):
                compared |= {
                    name for item in ast.walk(node.test) if isinstance(item, ast.Compare) for name in _own(item)
                }
            if isinstance(node, ast.Assign) and method.name != "__init__":
                assigned |= {name for target in node.targets for name in _own(target)}
    return frozenset(compared & assigned)


def _methods(cls: type) -> Iterator[ast.FunctionDef]:
    for parent in cls.__mro__:
        if parent.__module__.partition(".")[0] not in ("torch", "builtins"):
            try:
                tree = ast.parse(textwrap.dedent(inspect.getsource(parent)))
            except (OSError, TypeError, SyntaxError):
                # A class that was made without a file says nothing of its tables.
                continue
            yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _own(node: ast.AST) -> set[str]:
    """Return the attributes of `self` in a piece of code."""
    return {
        item.attr
        for item in ast.walk(node)
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self"
    }
