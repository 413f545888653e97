"""Does a replacement take what its original takes?"""

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from ._spec import Kind

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def mismatch(
    original: Callable[..., Any], replacement: Callable[..., Any], kind: Kind, *, follow: bool = True
) -> str | None:
    """Say how the signature of `replacement` does not fit `original`; None if it fits.

    A `"replace"` has the same parameters, one by one. A `"wrap"` may name fewer and take the others as `*args` and
    `**kwargs`, since it passes them on; what it does name has the name and place that it has in the original, so a
    renamed argument is found here and not swallowed. Built-in functions have no signature and fit. With `follow`,
    the signature of `original` is that of the function that it wraps.
    """
    try:
        wanted = list(inspect.signature(original, follow_wrapped=follow).parameters.values())
    except (TypeError, ValueError):
        return None
    found = list(inspect.signature(replacement, follow_wrapped=False).parameters.values())
    problem = _exact(wanted, found) if kind == "replace" else _passing(wanted, found)
    return problem and f"{problem} (upstream takes {_text(wanted)}; the replacement takes {_text(found)})"


def _exact(wanted: list[Parameter], found: list[Parameter]) -> str | None:
    for left, right in zip(wanted, found, strict=False):
        if (left.name, left.kind) != (right.name, right.kind):
            return f"upstream's parameter {left} stands where the replacement has {right}"
        if left.default is not Parameter.empty and right.default is Parameter.empty:
            return f"parameter {left.name!r} has a default upstream and none in the replacement"
    longer = wanted[len(found) :] or found[len(wanted) :]
    return f"parameter {longer[0].name!r} is on one side only" if longer else None


def _passing(wanted: list[Parameter], found: list[Parameter]) -> str | None:
    names = {item.name: item for item in wanted}
    positions = [item.name for item in wanted if item.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    named = [item for item in found if item.kind not in _VARIADIC]
    for place, item in enumerate(named):
        if item.name not in names:
            return f"upstream has no parameter {item.name!r}"
        if item.kind is not Parameter.KEYWORD_ONLY and positions[place : place + 1] != [item.name]:
            return f"parameter {item.name!r} has another place upstream"
        if names[item.name].default is not Parameter.empty and item.default is Parameter.empty:
            return f"parameter {item.name!r} has a default upstream and none in the replacement"
    kinds = {item.kind for item in found}
    missing = [item for item in wanted if item.name not in {other.name for other in named}]
    if missing and not kinds.issuperset(_VARIADIC):
        return f"the replacement does not pass on {missing[0].name!r}"
    return None


def _text(parameters: list[Parameter]) -> str:
    bare = [item.replace(annotation=Parameter.empty) for item in parameters]
    return f"({', '.join(map(str, bare))})"
