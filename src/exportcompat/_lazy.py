"""What a package shows without importing it at once."""

from collections.abc import Callable, Mapping


def later(package: str, owners: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that imports a name when it is first asked for.

    Args:
        package: its name.
        owners: the module or subpackage that has a name, by the name.
    """

    def attribute(name: str) -> object:
        import importlib
        import sys

        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(f"{package}.{owners[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
