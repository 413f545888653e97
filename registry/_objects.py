"""Objects in place of names, for a quick patch: each is called `module:name` where that leads back to it.

What has no such name, as a lambda or a class within a function, gets one in this module, which marks it as local: it is
kept for as long as the process lives, and no other process has it.
"""

import itertools
import re
import sys
from types import MethodType, ModuleType
from typing import Any

from ._errors import SpecError

_COUNT = itertools.count(1)


def is_local(text: str) -> bool:
    """Say whether a target or factory is an object of this process alone."""
    return f"{__name__}:" in text or "__main__:" in text


def target_name(thing: Any, spec_id: str) -> Any:
    """Return a target as a string; what is no object of a program is left to whoever checks the field.

    Args:
        thing: a string, which stays as it is; a function, method or class; or an owner with the name of an attribute,
            such as `(torch, "where")`.
        spec_id: the spec, for messages.

    Raises:
        SpecError: it has no name by which it can be replaced.
    """
    if isinstance(thing, str) or not (callable(thing) or isinstance(thing, tuple)):
        return thing
    if isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], (type, ModuleType)):
        owner, name = thing
        return f"{owner.__name__}:{name}" if isinstance(owner, ModuleType) else f"{_class_name(owner)}.{name}"
    if isinstance(thing, type):
        return _class_name(thing)
    if found := _name_of(thing):
        return found
    raise SpecError(
        f"spec {spec_id!r}: target {thing!r} cannot be found by the name that it has; write its owner and the "
        "attribute, such as (torch, 'where'), or 'pkg.mod:Class.method'"
    )


def factory_name(thing: Any) -> Any:
    """Return a factory as a string; what cannot be called is left to whoever checks the field."""
    return thing if isinstance(thing, str) or not callable(thing) else _name_of(thing) or keep(thing)


def keep(thing: Any) -> str:
    """Give a thing a name in this module, and return it as `module:name`."""
    bare = re.sub(r"\W+", "_", str(getattr(thing, "__name__", type(thing).__name__))).strip("_")
    name = f"{bare or 'thing'}_{next(_COUNT)}"
    setattr(sys.modules[__name__], name, thing)
    return f"{__name__}:{name}"


def _class_name(cls: type) -> str:
    return _name_of(cls) or keep(cls)


def _name_of(thing: Any) -> str:
    """Return `module:name` if that leads to a thing; empty if not."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if module not in sys.modules or not name:
        return ""
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    # A class gives out its class methods anew each time.
    is_same = found is thing or (isinstance(thing, MethodType) and found == thing)
    return f"{module}:{name}" if is_same else ""
