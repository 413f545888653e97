"""What a module holds beside its tensors' values: attributes, and tables of its own. Both can be given back."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TABLES = (dict, OrderedDict, set)
"""What a module keeps parameters, buffers, modules and hooks in, and models their own tables."""


@contextmanager
def preserved(model: Any) -> Iterator[None]:
    """Give every module of `model` its attributes back at the end, by reference, and its tables what they had."""
    states = [(module, dict(vars(module)), _tables(module)) for module in getattr(model, "modules", list)()]
    try:
        yield
    finally:
        for module, attributes, tables in states:
            give_back(vars(module), attributes)
            for name, before in tables.items():
                table = vars(module)[name]
                table.clear()
                table.update(before)


def _tables(module: Any) -> dict[str, Any]:
    return {name: value.copy() for name, value in vars(module).items() if type(value) in _TABLES}


def give_back(namespace: dict[str, Any], before: dict[str, Any]) -> None:
    """Make a namespace hold what it held before, by reference, and nothing else."""
    for name in namespace.keys() - before.keys():
        del namespace[name]
    for name, value in before.items():
        if namespace.get(name, preserved) is not value:
            namespace[name] = value
