"""A replacement that does not take what its original takes is found before it is called."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from exportcompat.registry._signature import mismatch
from exportcompat.registry._spec import Kind


def function(signature: str) -> Callable[..., Any]:
    """Return a function with the parameters of `signature`."""
    made: dict[str, Any] = {}
    exec(f"def made({signature}): pass", made)
    result: Callable[..., Any] = made["made"]
    return result


WRAP = [
    ("self, x", "self, x", None),
    ("self, x, mask=None", "*args, **kwargs", None),
    ("self, x, mask=None", "self, *args, **kwargs", None),
    ("self, x, mask=None", "self, x, *args, **kwargs", None),
    ("self, x, mask=None", "self, x, mask=None", None),
    ("self, x, mask", "self, x, mask=None", None),
    ("self, x, *, flag=False", "self, x, **kwargs", None),
    ("self, x, *, flag=False", "self, x, *args, flag=False, **kwargs", None),
    ("x, /", "x", None),
    ("x, /, y", "x, *args, **kwargs", None),
    # A renamed argument would be swallowed by **kwargs.
    ("self, x, attention_mask=None", "self, x, mask=None, **kwargs", "upstream has no parameter 'mask'"),
    ("self, query_length", "self, cache_position, *args, **kwargs", "upstream has no parameter 'cache_position'"),
    ("self, x, **kwargs", "self, x, mask=None, **kwargs", "upstream has no parameter 'mask'"),
    ("self, x, kwargs", "self, x, **kwargs", "does not pass on 'kwargs'"),
    # The place counts.
    ("self, x, y", "self, y, x", "parameter 'y' has another place upstream"),
    ("self, x, y", "self, y, *args, **kwargs", "parameter 'y' has another place upstream"),
    ("self, x, *, y=1", "self, x, y=1", "parameter 'y' has another place upstream"),
    ("self, x, y=1", "self, x, *args, y=1, **kwargs", "parameter 'y' is positional or keyword upstream"),
    ("x, y", "x, y, /", "parameter 'x' is positional or keyword upstream"),
    ("*args", "args", "parameter 'args' has another place upstream"),
    # Nothing may be dropped.
    ("self, x, mask=None", "self, x", "does not pass on 'mask'"),
    ("self, x, mask=None", "self, x, **kwargs", "does not pass on 'mask'"),
    ("self, x, mask=None", "self, x, *args", "does not pass on 'mask'"),
    ("self, x, *, flag=False", "self, x, *args", "does not pass on 'flag'"),
    ("self, x, *args", "self, x, **kwargs", "does not pass on 'args'"),
    ("self, x, **kwargs", "self, x, *args", "does not pass on 'kwargs'"),
    ("x, y, /", "x, **kwargs", "does not pass on 'y'"),
    # A default that differs would be passed on in place of upstream's.
    ("x, mask=None", "x, mask", "parameter 'mask' has a default upstream and none in the replacement"),
    ("x, scale=1.0", "x, scale=2.0", "parameter 'scale' has the default 1.0 upstream"),
    ("x, scale=1", "x, scale=True", "parameter 'scale' has the default 1 upstream"),
]

REPLACE = [
    ("self, x", "self, x", None),
    ("self, x, *args, flag=False, **kwargs", "self, x, *args, flag=False, **kwargs", None),
    ("self, x", "self, x=None", None),
    ("self, x", "self, y", "upstream's parameter x stands where the replacement has y"),
    ("self, x", "self, **x", "upstream's parameter x stands where the replacement has **x"),
    (
        "self, x, mask=None",
        "self, x, **kwargs",
        "upstream's parameter mask=None stands where the replacement has **kwargs",
    ),
    ("self, x, mask=None", "*args, **kwargs", "upstream's parameter self stands where the replacement has *args"),
    ("self, x, y", "self, x", "parameter 'y' is on one side only"),
    ("self, x", "self, x, y", "parameter 'y' is on one side only"),
    ("self, x", "self, x, **kwargs", "parameter 'kwargs' is on one side only"),
    ("self, x=1", "self, x", "parameter 'x' has a default upstream and none in the replacement"),
    ("self, x=1", "self, x=2", "parameter 'x' has the default 1 upstream"),
]


@pytest.mark.parametrize(
    ("kind", "wanted", "found", "expected"),
    [("wrap", *row) for row in WRAP] + [("replace", *row) for row in REPLACE],
)
def test_mismatch(kind: Kind, wanted: str, found: str, expected: str | None) -> None:
    problem = mismatch(function(wanted), function(found), kind)
    if expected is None:
        assert problem is None
    else:
        assert problem is not None
        assert expected in problem
        assert problem.endswith(f"(upstream takes ({wanted}); the replacement takes ({found}))")


def test_annotations_do_not_count_and_are_not_shown() -> None:
    assert mismatch(function("x: int = 1"), function("x: str = 1"), "replace") is None
    assert "takes (x)" in str(mismatch(function("x: int"), function("y: str"), "replace"))


def test_defaults_that_cannot_be_compared_are_equal_if_their_types_are() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    def wanted(x: object = Odd()) -> None: ...
    def found(x: object = Odd()) -> None: ...

    assert mismatch(wanted, found, "wrap") is None


def test_a_builtin_fits() -> None:
    assert mismatch(dict.update, function("y"), "replace") is None


def test_what_an_original_wraps_is_followed_unless_told_not_to() -> None:
    @functools.wraps(function("x, y"))
    def wrapper(x: int) -> None: ...

    assert mismatch(wrapper, function("x, y"), "replace") is None
    assert mismatch(wrapper, function("x"), "replace", follow=False) is None
    assert mismatch(wrapper, function("x, y"), "replace", follow=False) is not None
