"""A fingerprint changes when the code does, and at no other time."""

import ast
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from exportcompat.registry import ExportCompatError, Fingerprints, fingerprint
from exportcompat.registry._fingerprint import BUILTIN, _quick_source, of_text

PLAIN = "def f(x, y=1):\n    z = x + y\n    return z\n"

SAME = [
    "def f(x, y=1):\n    # A comment.\n    z = x + y  # Another.\n\n    return z\n",
    'def f(x, y=1):\n    """A docstring."""\n    z = x + y\n    return z\n',
    "def f(x: int, y: 'int' = 1) -> int:\n    z = x + y\n    return z\n",
    "def f(x, y=1):\n    z: int = x + y\n    return z\n",
    "def f(x, y=1):\n    z = (\n        x\n        + y\n    )\n    return z\n",
    "    def f(x, y=1):\n        z = x + y\n        return z\n",
]

OTHER = [
    "def g(x, y=1):\n    z = x + y\n    return z\n",
    "def f(x, y=2):\n    z = x + y\n    return z\n",
    "def f(y, x=1):\n    z = x + y\n    return z\n",
    "def f(x, *, y=1):\n    z = x + y\n    return z\n",
    "def f(x, y=1):\n    z = x - y\n    return z\n",
    "def f(x, y=1):\n    z = x + y\n    return z + 0\n",
    "def f(x, y=1):\n    z = x + y\n    return 'z'\n",
    "@cached\ndef f(x, y=1):\n    z = x + y\n    return z\n",
    "async def f(x, y=1):\n    z = x + y\n    return z\n",
    "def f(x, y=1):\n    z = x + y\n    'A text that is no docstring.'\n    return z\n",
]


@pytest.mark.parametrize("text", SAME)
def test_what_is_no_code_does_not_count(text: str) -> None:
    assert of_text(text) == of_text(PLAIN)


@pytest.mark.parametrize("text", OTHER)
def test_code_counts(text: str) -> None:
    assert of_text(text) != of_text(PLAIN)


def test_all_of_these_differ_from_one_another() -> None:
    assert len({of_text(text) for text in OTHER}) == len(OTHER)


def test_classes_have_a_fingerprint_too() -> None:
    one = "class A(B):\n    '''Doc.'''\n    size: int = 1\n    def f(self): return self.size\n"
    two = "class A(B):\n    size = 1\n    def f(self) -> int:\n        return self.size\n"
    assert of_text(one) == of_text(two)
    assert of_text(one) != of_text(two.replace("size = 1", "size = 2"))
    assert len(fingerprint(ast.NodeVisitor)) == 12


def test_a_field_without_a_value_counts() -> None:
    assert of_text("class A:\n    x: int\n    y: int\n") != of_text("class A:\n    x: int\n")


def test_the_hash_is_the_same_everywhere_and_for_ever() -> None:
    assert of_text(PLAIN) == "e65c6bc40f5c"
    assert (
        of_text("def f(*a, b=1.5, **k):\n    with a as c:\n        return f'{c!r:>{b}}' + 'é\u2028', ...\n")
        == "75035b827757"
    )


def test_text_that_is_no_python() -> None:
    with pytest.raises(SyntaxError):
        of_text("def f(:")


@pytest.mark.parametrize("failures", [1, 20])
def test_a_parser_that_fails_at_random_is_asked_again(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    left, parse = [SystemError("AST constructor recursion depth mismatch")] * failures, ast.parse

    def failing(text: str) -> ast.Module:
        if left:
            raise left.pop()
        return parse(text)

    monkeypatch.setattr(ast, "parse", failing)
    assert of_text(PLAIN) == "e65c6bc40f5c"
    left.extend([SystemError()] * 21)
    with pytest.raises(SystemError):
        of_text(PLAIN)


def test_what_has_no_source_is_builtin() -> None:
    made: dict[str, Any] = {}
    exec("def f(): pass", made)
    assert fingerprint(len) == fingerprint(made["f"]) == fingerprint(3) == BUILTIN


def test_a_wrapped_function_has_the_fingerprint_of_what_it_wraps() -> None:
    def wrapper(*args: Any) -> None: ...

    wrapper.__wrapped__ = inspect.getsource  # type: ignore[attr-defined]
    assert fingerprint(wrapper) == fingerprint(inspect.getsource) != BUILTIN


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """Yield the functions and methods that a module defines."""
    owners: list[Any] = [module, *(value for value in vars(module).values() if isinstance(value, type))]
    for owner in owners:
        if owner is module or owner.__module__ == module.__name__:
            for value in vars(owner).values():
                if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                    yield value


MODULES = [
    "argparse", "ast", "collections", "dataclasses", "functools", "inspect", "logging", "pathlib", "tarfile", "typing",
    "torch.export._trace", "torch.nn.modules.module", "torch.utils._pytree", "torch._tensor", "torch.functional",
    "transformers.cache_utils", "transformers.masking_utils", "transformers.modeling_rope_utils",
]  # fmt: skip


def slow_fingerprint(function: FunctionType) -> str:
    """Return the fingerprint of what the standard library calls the source."""
    try:
        return of_text(inspect.getsource(function.__code__))
    except (OSError, SyntaxError, ValueError):
        return BUILTIN


@pytest.mark.parametrize("name", MODULES)
def test_the_quick_way_finds_what_inspect_finds(name: str) -> None:
    found = list(functions(importlib.import_module(name)))
    assert len(found) > 3
    for function in found:
        code: Any = inspect.unwrap(function)
        if code.__code__ is function.__code__:
            assert fingerprint(function) == slow_fingerprint(function), function


def test_the_quick_way_is_the_one_that_is_used() -> None:
    source = _quick_source(inspect.getsource.__code__)
    assert source.rstrip() == inspect.getsource(inspect.getsource).rstrip()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Fingerprints]:
    """Return a function that writes a lock file."""

    def written(text: str) -> Fingerprints:
        path = tmp_path / "fingerprints.json"
        path.write_text(text, "utf-8")
        return Fingerprints(path)

    return written


def test_releases(write: Callable[[str], Fingerprints]) -> None:
    found = write(json.dumps({"fakepkg:f": {"abc": ["1.0", "1.1"]}}))
    assert found.releases("fakepkg:f") == {"abc": ["1.0", "1.1"]}
    assert found.releases("fakepkg:g") == {}


def test_the_lock_file_is_read_once_and_late(write: Callable[[str], Fingerprints]) -> None:
    found = write("{}")
    assert found.releases("fakepkg:f") == {}
    found.path.unlink()
    assert found.releases("fakepkg:f") == {}


@pytest.mark.parametrize("text", ["", '{"fakepkg:f": {"abc', "not json", '{"fakepkg:f": {"abc": []}} more'])
def test_a_truncated_lock_file(write: Callable[[str], Fingerprints], text: str) -> None:
    found = write(text)
    with pytest.raises(ExportCompatError) as caught:
        found.releases("fakepkg:f")
    assert str(caught.value).startswith(f"the lock file {found.path} cannot be read: ")
    assert str(caught.value).endswith("; reinstall the package")


@pytest.mark.parametrize("text", ["[]", "3", '{"fakepkg:f": ["abc"]}', '{"fakepkg:f": null}'])
def test_a_lock_file_of_another_form(write: Callable[[str], Fingerprints], text: str) -> None:
    found = write(text)
    with pytest.raises(ExportCompatError, match="maps no targets to fingerprints; reinstall the package"):
        found.releases("fakepkg:f")


def test_a_missing_lock_file(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="cannot be read: .*No such file.*; reinstall the package"):
        Fingerprints(tmp_path / "nothing.json").releases("fakepkg:f")


def test_a_lock_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "fingerprints.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ExportCompatError, match="cannot be read"):
        Fingerprints(path).releases("fakepkg:f")
