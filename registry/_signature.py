"""Does a replacement take what its original takes?"""

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from ._spec import Kind

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_PLAIN = (bool, int, float, str, bytes, tuple, type(None))

# For a kind of parameter upstream: the kinds that take every call of it, and those that pass it on unnamed.
_TAKEN_BY: dict[Any, set[Any]] = {
    Parameter.POSITIONAL_ONLY: {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD},
    Parameter.POSITIONAL_OR_KEYWORD: {Parameter.POSITIONAL_OR_KEYWORD},
    Parameter.KEYWORD_ONLY: {Parameter.KEYWORD_ONLY},
    Parameter.VAR_POSITIONAL: set(),
    Parameter.VAR_KEYWORD: set(),
}
_PASSED_BY: dict[Any, set[Any]] = {
    Parameter.POSITIONAL_ONLY: {Parameter.VAR_POSITIONAL},
    Parameter.POSITIONAL_OR_KEYWORD: {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD},
    Parameter.KEYWORD_ONLY: {Parameter.VAR_KEYWORD},
    Parameter.VAR_POSITIONAL: {Parameter.VAR_POSITIONAL},
    Parameter.VAR_KEYWORD: {Parameter.VAR_KEYWORD},
}


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
        wanted = _bare(inspect.signature(original, follow_wrapped=follow))
    except (TypeError, ValueError):
        return None
    return signature_mismatch(wanted, _bare(inspect.signature(replacement, follow_wrapped=False)), kind)


def signature_mismatch(wanted: list[Parameter], found: list[Parameter], kind: Kind) -> str | None:
    """Say the same of the parameters of an original and of a replacement; see `mismatch`."""
    problem = _exact(wanted, found) if kind == "replace" else _passing(wanted, found)
    return problem and f"{problem} (upstream takes {_text(wanted)}; the replacement takes {_text(found)})"


def _exact(wanted: list[Parameter], found: list[Parameter]) -> str | None:
    for left, right in zip(wanted, found, strict=False):
        if (left.name, left.kind) != (right.name, right.kind):
            return f"upstream's parameter {left} stands where the replacement has {right}"
        if problem := _default(left, right):
            return problem
    longer = wanted[len(found) :] or found[len(wanted) :]
    return f"parameter {longer[0].name!r} is on one side only" if longer else None


def _passing(wanted: list[Parameter], found: list[Parameter]) -> str | None:
    names = {item.name: item for item in wanted}
    positions = [
        item.name for item in wanted if item.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    named = [item for item in found if item.kind not in _VARIADIC]
    for place, item in enumerate(named):
        if item.name not in names:
            return f"upstream has no parameter {item.name!r}"
        if item.kind is not Parameter.KEYWORD_ONLY and positions[place : place + 1] != [item.name]:
            return f"parameter {item.name!r} has another place upstream"
        if item.kind not in _TAKEN_BY[names[item.name].kind]:
            return f"parameter {item.name!r} is {names[item.name].kind.description} upstream"
        if problem := _default(names[item.name], item):
            return problem
    kinds = {item.kind for item in found}
    for item in wanted:
        if item.name not in {other.name for other in named} and not kinds.issuperset(_PASSED_BY[item.kind]):
            return f"the replacement does not pass on {item.name!r}"
    return None


def _default(wanted: Parameter, found: Parameter) -> str | None:
    left, right = wanted.default, found.default
    if left is Parameter.empty or left is right:
        return None
    if right is Parameter.empty:
        return f"parameter {wanted.name!r} has a default upstream and none in the replacement"
    # Only plain values are compared; a tensor has no single answer.
    is_same = type(left) is type(right) and (not isinstance(left, _PLAIN) or left == right)
    return None if is_same else f"parameter {wanted.name!r} has the default {left!r} upstream"


def _bare(signature: inspect.Signature) -> list[Parameter]:
    return [item.replace(annotation=Parameter.empty) for item in signature.parameters.values()]


def _text(parameters: list[Parameter]) -> str:
    return str(inspect.Signature(parameters))
