"""What a package shows without importing it at once."""

from collections.abc import Callable, Mapping


def later(package: str, owners: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that imports a name when it is first asked for.

    Args:
        package: its name.
        owners: the module or subpackage that has a name, by the name; empty for a subpackage itself.
    """

    def attribute(name: str) -> object:
        import importlib
        import sys

        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{owners[name] or name}")
        value: object = getattr(module, name) if owners[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return attribute
