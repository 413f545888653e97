"""Fake packages, specs in one line, and the check that no test leaves anything behind."""

import gc
import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from types import ModuleType
from typing import Any

import pytest

from exportcompat.registry import PatchingSpec
from exportcompat.registry._scope import ENGINE, WATCH


class Base:
    """A parent, for what is inherited."""

    def greet(self) -> str:
        """Return a text."""
        return "hello"


class Thing(Base):
    """One of every kind of attribute."""

    def method(self, x: int) -> int:
        """Return the argument."""
        return x

    @staticmethod
    def static(x: int) -> int:
        """Return the argument."""
        return x

    @classmethod
    def name(cls) -> str:
        """Return the name of the class."""
        return cls.__name__

    @property
    def size(self) -> int:
        """The size."""
        return 3


class Levels(MutableMapping[str, Any]):
    """A mapping with one dict for the class and one for the instance, like `GeneralInterface` of transformers."""

    shared: dict[str, Any] = {}

    def __init__(self) -> None:
        self.own: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        return self.own[key] if key in self.own else self.shared[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.own[key] = value

    def __delitem__(self, key: str) -> None:
        del self.own[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**self.shared, **self.own})

    def __len__(self) -> int:
        return len({**self.shared, **self.own})


class Snapshot:
    """What some namespaces and tables hold, object by object."""

    def __init__(self, *owners: Any) -> None:
        self._tables = [(owner, self._table(owner)) for owner in owners]
        self._before = [dict(table()) for _, table in self._tables]
        self._finders = list(sys.meta_path)

    @staticmethod
    def _table(owner: Any) -> Callable[[], Any]:
        return (lambda: owner) if isinstance(owner, dict) else (lambda: vars(owner))

    def changes(self) -> list[str]:
        """Return a line for each difference; the same objects under the same names are no difference."""
        found = [] if sys.meta_path == self._finders else ["sys.meta_path"]
        for (owner, table), before in zip(self._tables, self._before, strict=True):
            now = dict(table())
            where = getattr(owner, "__name__", type(owner).__name__)
            names = [name for name in before.keys() | now.keys() if before.get(name, self) is not now.get(name, self)]
            found += [f"{where}: {name}" for name in names]
        return found


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Check after every test that no patch and no listener is left."""
    yield
    left = [patch.slot.label for patch in ENGINE.patches()]
    listeners = list(WATCH._listeners)
    ENGINE._stacks.clear()
    WATCH._listeners.clear()
    assert (left, listeners, WATCH in sys.meta_path) == ([], [], False)


@pytest.fixture(autouse=True)
def _no_broken_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what torch logs of a saved cache: the line has a wrong format, which pytest makes an error."""
    monkeypatch.setattr(logging.getLogger("torch._export.serde.serialize"), "disabled", True)


@pytest.fixture(autouse=True)
def _fast_exports(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give torch one thread, and keep what an export leaves alive out of later collections of garbage.

    The tensors are tiny, and the workers of pytest share the cores: more threads would wait for each other. What stays
    is modules and caches, hundreds of megabytes after some exports.
    """
    is_export = request.path.parent.name == "export" and "torch" in sys.modules
    if is_export:
        sys.modules["torch"].set_num_threads(1)
        # An export makes a million objects that live until its end, and looking for garbage among them finds none.
        gc.set_threshold(50_000, 20, 50)
    yield
    if is_export:
        gc.collect()
        gc.freeze()


@pytest.fixture
def make_module(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Return a function that puts a module with the given attributes into `sys.modules` for one test."""

    def make(module: str, /, **attributes: Any) -> ModuleType:
        made = ModuleType(module)
        vars(made).update({"__version__": "1.0", **attributes})
        monkeypatch.setitem(sys.modules, module, made)
        return made

    return make


@pytest.fixture
def fakepkg(make_module: Callable[..., ModuleType]) -> ModuleType:
    """Return the package `fakepkg` 1.0 with functions, classes, a dict and a mapping of two levels."""

    def f(x: int) -> int:
        return x

    def g(x: int) -> int:
        return -x

    class OwnBase(Base):
        greet = Base.greet

    class OwnThing(OwnBase):
        method = Thing.method
        static = staticmethod(Thing.static)
        name = vars(Thing)["name"]
        size = vars(Thing)["size"]

    class OwnLevels(Levels):
        shared = {"item": f}

    make_module(
        "fakefactories",
        tagged=tagged,
        loud=lambda original: lambda *args, **kwargs: f"{original(*args, **kwargs)}!",
        renamed=lambda original: lambda y: y,
        choosy=lambda original: tagged(original) if original.__name__ == "g" else original,
        failing=lambda original: original.no_such_attribute,
    )
    return make_module(
        "fakepkg", f=f, g=g, Base=OwnBase, Thing=OwnThing, TABLE={"item": f}, LEVELS=OwnLevels(), NUMBER=1
    )


def tagged(original: Any) -> Any:
    """Return a replacement that gives `("patched", result of the original)`."""

    def replacement(*args: Any, **kwargs: Any) -> tuple[str, Any]:
        return "patched", original(*args, **kwargs)

    return replacement


@pytest.fixture
def make_spec() -> Callable[..., PatchingSpec]:
    """Return a function that makes a spec for `fakepkg:f`, in which each field can be set."""

    def make(*targets: str, **fields: Any) -> PatchingSpec:
        values: dict[str, Any] = {
            "id": "fake-spec",
            "targets": targets or ("fakepkg:f",),
            "replacement": "fakefactories:tagged",
            "requires": ("fakepkg>=1",),
            "reason": "Something goes wrong.",
            "upstream": ("https://example.org/issue",),
            "proofs": ("case",),
            "kind": "wrap",
        }
        return PatchingSpec(**{**values, **fields})

    return make


@pytest.fixture
def snapshot() -> type[Snapshot]:
    """Return the class of snapshots of namespaces."""
    return Snapshot


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command and returns its status, its results and its messages."""
    from exportcompat.__main__ import run as command

    def run(*arguments: Any) -> tuple[int, str, str]:
        status = command(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let each derived file take so much of the time of the file that it was derived of."""
    from exportcompat._serving import _judge, _serve
    from exportcompat._serving._timing import Ratio

    def say(ratio: float) -> None:
        for module in (_judge, _serve):
            monkeypatch.setattr(module, "compare_times", lambda *_: [Ratio(64, 1, ratio)])

    return say
