"""Definitions in sources that are not imported are those that an import would give, down to their fingerprints."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exportcompat._drift._archive import read_sources
from exportcompat._drift._definitions import Package
from exportcompat.registry import fingerprint

FILES = {
    "__init__.py": "__version__ = '1.0'\nfrom .tools import helper as tool\nfrom . import tools\n",
    "tools.py": '''
import functools
from functools import wraps

try:
    from nowhere import helper
except ImportError:
    def helper(a, b=1, *c, d: int = 2, **e):
        """Help."""
        return a  # a comment

def decorate(function):
    @wraps(function)
    def inner(*args):
        return function(*args)
    return inner

if True:
    def chosen():
        return 1
else:
    def chosen():
        return 2

class Base:
    def __init__(self, size):
        self.size = size
    def shared(self):
        return self.size

def _own():
    return 1

other = helper
made = functools.partial(helper, 1)
''',
    "models.py": """
from .tools import Base, decorate, helper
from pack_static import tools as more

class Child(Base):
    @decorate
    def forward(self, x):
        return x
    alias = forward
    class Inner:
        def method(self):
            return 1

class Grandchild(Child):
    pass
""",
    "stars.py": "from .tools import *\nfrom .models import *\n",
}
NAMES = [
    ("pack_static", "tool"),
    ("pack_static.tools", "helper"),
    ("pack_static.tools", "chosen"),
    ("pack_static.tools", "other"),
    ("pack_static.tools", "decorate"),
    ("pack_static.models", "helper"),
    ("pack_static.models", "Child.forward"),
    ("pack_static.models", "Child.alias"),
    ("pack_static.models", "Child.shared"),
    ("pack_static.models", "Grandchild.forward"),
    ("pack_static.models", "Child.Inner.method"),
    ("pack_static.models", "Grandchild"),
    ("pack_static.stars", "helper"),
    ("pack_static.stars", "Grandchild.shared"),
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    folder = tmp_path / "pack_static"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield Package(read_sources(folder, "pack_static"))
    for name in [name for name in sys.modules if name.startswith("pack_static")]:
        del sys.modules[name]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_definition_is_what_an_import_gives(package: Package, module: str, name: str) -> None:
    found = package.find(module, name)
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    assert found is not None
    assert found.fingerprint == fingerprint(value)


def test_a_star_brings_no_private_names(package: Package) -> None:
    assert package.find("pack_static.tools", "_own") is not None
    assert package.find("pack_static.stars", "_own") is None
    assert package.find("pack_static.stars", "no_such") is None


def test_an_initialiser_is_inherited(package: Package) -> None:
    found = package.initialiser("pack_static.models", "Grandchild")
    assert found is not None
    assert (found.module, found.name) == ("pack_static.tools", "Base.__init__")
    bare = package.initialiser("pack_static.models", "Child.Inner")
    assert bare is not None
    assert bare.fingerprint == "builtin"


def test_a_signature_has_no_annotations_and_a_source_its_decorators(package: Package) -> None:
    helper, forward = package.find("pack_static", "tool"), package.find("pack_static.models", "Child.forward")
    assert helper is not None
    assert forward is not None
    assert helper.signature == "(a, b=1, *c, d=2, **e)"
    assert forward.source == "    @decorate\n    def forward(self, x):\n        return x\n"


@pytest.mark.parametrize("name", ["nothing", "Child.nothing", "more.helper", "Child.forward.inner"])
def test_what_is_not_there_is_none(package: Package, name: str) -> None:
    assert package.find("pack_static.models", name) is None
    assert package.find("pack_static.nowhere", name) is None


def test_what_a_call_returns_has_no_source(package: Package) -> None:
    found = package.find("pack_static.tools", "made")
    assert found is not None
    assert found.fingerprint == "builtin"


@pytest.mark.parametrize("text", ["def (", "x = " + "(" * 5_000, "from .a import f\n", "\0"])
def test_bad_python_and_circles_have_no_definitions(tmp_path: Path, text: str) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("__version__ = '1'\n", "utf-8")
    (tmp_path / "pack" / "a.py").write_text(text, "utf-8")
    assert Package(read_sources(tmp_path, "pack")).find("pack.a", "f") is None
