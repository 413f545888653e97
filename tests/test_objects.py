"""Objects in place of names: a quick patch needs no module, and is marked where nobody else could have it."""

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from exportcompat import apply_patches
from exportcompat.registry import PatchingSpec, Registry, SpecError

MakeSpec = Callable[..., PatchingSpec]


class Known:
    """Something of a module."""

    def method(self, x: int) -> int:
        """Return the argument."""
        return x

    @classmethod
    def build(cls, x: int) -> int:
        """Return the argument."""
        return x


def patch_method(original: Callable[..., int]) -> Callable[..., int]:
    """Return a replacement that adds 1."""
    return lambda *args, **kwargs: original(*args, **kwargs) + 1


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Known.method, f"{__name__}:Known.method"),
        (Known.build, f"{__name__}:Known.build"),
        (json.dumps, "json:dumps"),
        (Known, f"{__name__}:Known"),
        ((Known, "method"), f"{__name__}:Known.method"),
        ((sys, "getrefcount"), "sys:getrefcount"),
        (sys.getrefcount, "sys:getrefcount"),
        ("json:dumps", "json:dumps"),
    ],
)
def test_a_target_that_has_a_name_is_called_by_it(thing: Any, name: str, make_spec: MakeSpec) -> None:
    if __name__ not in sys.modules:
        pytest.skip("the test is not imported by its name")
    spec = make_spec(thing, replacement=patch_method)
    assert (spec.targets, spec.replacement) == ((name,), f"{__name__}:patch_method")
    assert not spec.is_local
    assert spec == make_spec(name, replacement=f"{__name__}:patch_method")


def test_a_class_as_a_node(make_spec: MakeSpec) -> None:
    spec = make_spec(Known, kind="pytree", replacement=lambda _: {})
    assert spec.targets == (f"pytree({__name__}:Known)",)


def test_local_objects_are_marked_and_applied(make_spec: MakeSpec) -> None:
    class Hidden:
        def method(self, x: int) -> int:
            return x

    spec = make_spec(
        (Hidden, "method"),
        requires=("packaging>=1",),
        replacement=lambda original: patch_method(original),  # noqa: PLW0108
    )
    assert spec.is_local
    assert "Hidden_" in spec.targets[0]
    gc.collect()
    narrowed = replace(spec, requires=("packaging>=2",))
    for registry in (Registry([spec]), Registry([narrowed])):
        with apply_patches(registry=registry) as report:
            assert Hidden().method(1) == 2
        assert Hidden().method(1) == 1
        assert report.used == [spec.id]
    # Two lambdas are two factories, although they have one name.
    assert make_spec(replacement=lambda original: original) != make_spec(replacement=lambda original: original)


def test_what_is_made_in_a_notebook_is_local(
    make_spec: MakeSpec, make_module: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: int) -> int:
        return x

    f.__module__, f.__qualname__ = "__main__", "f"
    make_module("__main__", f=f)
    spec = make_spec(f)
    assert (spec.targets, spec.is_local) == (("__main__:f",), True)


@pytest.mark.parametrize("thing", [lambda x: x, (json, "dumps", 1), [].append, ("a", "b")])
def test_a_target_without_a_name_is_refused(thing: Any, make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match=r"spec 'fake-spec': target .* write its owner and the attribute"):
        make_spec(thing)


def test_a_factory_that_cannot_be_called_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match='replacement is 3; wanted "package.module:factory"'):
        make_spec(replacement=3)
