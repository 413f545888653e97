"""What a piece of code depends on: every change of what it leads to is seen, and no move, new name or comment."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from exportcompat.matrix.store._dependencies import Dependencies, Part
from exportcompat.matrix.store._source_tree import Definition, SourceTree

PACK = {
    "a": """
        from .b import helper, LIMIT
        from . import c as other

        TABLE = {"one": other.first, "two": other.second}

        def root(name, flag=LIMIT, *, more=TABLE, last=TABLE):
            '''Do it.'''
            value = helper(name) + LIMIT
            return TABLE[name](value) if flag else other.second(value)

        def factory(original):
            '''Return what is put in place.'''
            from .b import helper

            chosen = helper(original)

            def prepared(value):
                return value + 3

            def replacement(value):
                return original(value) + chosen + other.first(value)

            return replacement if prepared(1) else original
    """,
    "b": """
        import math

        LIMIT = 4

        def helper(value):
            return _inner(value) + 1

        def _inner(value):
            return helper(value - 1) if value else math.floor(2)

        def beside(value):
            return 7
    """,
    "c": """
        from torch import nn as layers

        class Shape:
            size = 3

            def area(self):
                return second(self.size)

        def first(value):
            return Shape().area() + value

        def second(value):
            return layers.relu(value)
    """,
}


@pytest.fixture
def digest(tmp_path: Path) -> Callable[..., str]:
    """Return a function that digests a definition of a package, with texts replaced in its modules."""

    def digest(*changes: tuple[str, str, str], root: str = "pack.a:root", is_called: bool = True, **files: str) -> str:
        texts = {name: dedent(text) for name, text in {**PACK, **files}.items()}
        for name, old, new in changes:
            assert old in texts[name]
            texts[name] = texts[name].replace(old, new)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in {"__init__": "", **texts}.items():
            (folder / f"{name}.py").write_text(text, "utf-8")
        tree = SourceTree({"pack": folder})
        found = tree.find(*root.split(":"))
        assert isinstance(found, Definition)
        return Dependencies(tree).digest([Part(found, is_called)])

    return digest


@pytest.mark.parametrize(
    "change",
    [
        ("a", "value = helper", "value = 1 + helper"),
        ("a", "flag=LIMIT", "flag=True"),
        ("b", "LIMIT = 4", "LIMIT = 5"),
        ("b", "+ 1", "+ 2"),
        ("b", "floor(2)", "floor(3)"),
        ("b", "import math", "import cmath as math"),
        ("b", "helper(value - 1)", "beside(value - 1)"),
        ("c", "size = 3", "size = 4"),
        ("c", "second(self.size)", "first(self.size)"),
        ("c", "from torch import nn as layers", "from tensorflow import nn as layers"),
        ("a", '"two": other.second', '"two": other.first'),
    ],
)
def test_what_it_leads_to_counts(digest: Callable[..., str], change: tuple[str, str, str]) -> None:
    assert digest(change) != digest()


@pytest.mark.parametrize(
    "changes",
    [
        [("a", "'''Do it.'''", "'''Do that.'''  # with a reason")],
        [("b", "return 7", "return 8")],
        [("b", "def helper(value):", "def helper(value: int) -> int:")],
        [("b", "_inner", "_deeper")],
        [("c", "Shape", "Form")],
        [("a", "import helper, LIMIT", "import helper as h, LIMIT"), ("a", "value = helper", "value = h")],
        [("c", "from torch import nn as layers", "from torch import nn"), ("c", "layers.", "nn.")],
        [("a", "+ 3", "+ 4")],
    ],
    ids=["texts", "others", "annotations", "a name", "a class", "an alias", "an outer alias", "beside it"],
)
def test_names_texts_and_what_is_beside_do_not(digest: Callable[..., str], changes: list[tuple[str, str, str]]) -> None:
    assert digest(*changes) == digest()


def test_a_move_does_not(digest: Callable[..., str]) -> None:
    moved = PACK["b"].replace("LIMIT = 4", "from .d import LIMIT")
    assert digest(b=moved, d="LIMIT = 4") == digest()
    assert digest(b=moved, d="LIMIT = 5") != digest()
    inside = [
        ("a", "from .b import helper, LIMIT", "from .b import LIMIT"),
        ("a", "value = h", "from .b import helper; value = h"),
    ]
    assert digest(*inside) == digest()


def test_a_name_that_a_function_binds_itself_is_no_reference(digest: Callable[..., str]) -> None:
    own = ("a", "value = helper(name) + LIMIT", "LIMIT = name; value = helper(name) + LIMIT")
    assert digest(own, ("a", "flag=LIMIT", "flag=1"), b=PACK["b"].replace("LIMIT = 4", "LIMIT = 5")) == digest(
        own, ("a", "flag=LIMIT", "flag=1")
    )
    comprehension = ("a", "value = helper(name)", "value = sum(helper for helper in name) + helper(name)")
    assert digest(comprehension, ("b", "+ 1", "+ 2")) != digest(comprehension)


@pytest.mark.parametrize(
    ("change", "counts_always"),
    [
        (("a", "+ chosen +", "- chosen +"), False),
        (("c", "size = 3", "size = 4"), False),
        (("a", "+ 3", "+ 4"), True),
        (("b", "+ 1", "+ 2"), True),
    ],
)
def test_what_a_factory_returns_counts_where_it_is_called(
    digest: Callable[..., str], change: tuple[str, str, str], counts_always: bool
) -> None:
    factory = {"root": "pack.a:factory"}
    assert digest(change, **factory) != digest(**factory)
    assert (digest(change, **factory, is_called=False) != digest(**factory, is_called=False)) == counts_always


def test_of_a_table_only_the_entries_that_are_picked_count(tmp_path: Path) -> None:
    for name, text in {"__init__": "", **PACK}.items():
        (tmp_path / f"{name}.py").write_text(dedent(text), "utf-8")
    tree, root = SourceTree({"pack": tmp_path}), [Part(Definition("pack.a", "TABLE"))]
    other = tree.edited("pack.a", dedent(PACK["a"]).replace('"two": other.second', '"two": 5'))
    assert Dependencies(tree, ["one"]).digest(root) == Dependencies(other, ["one"]).digest(root)
    assert Dependencies(tree, ["two"]).digest(root) != Dependencies(other, ["two"]).digest(root)
    assert Dependencies(tree, ["none"]).digest(root) != Dependencies(other, ["none"]).digest(root)
