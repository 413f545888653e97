"""What a result depends on is what was executed for it: an edit of any function that ran makes the result old.

Run on all cases with `EXPORTCOMPAT_KEY_CASES='*'`; the usual ones are one of each kind.
"""

import ast
import fnmatch
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import pytest

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.store import SourceTree, own_source

pytest.importorskip("onnxruntime", reason="cases are exported and run")
pytest.importorskip("transformers", reason="cases are models of transformers")

KINDS = (
    *("tiny_gpt", "llama", "lfm2", "mixtral", "llava", "bert", "sew", "whisper_decoder", "joined_gpt2"),
    *("qwen2_5_vl_vision", "llama_static", "llama_pairs", "llama_official", "llama_export", "llama_script"),
)
VERSIONS = {"torch": "2.13.0", "transformers": "5.24.0"}
RECORDS = {
    "default_registry": "leads to the records of specs, which are in the key",
    "find_case": "leads to the record of a case, which is in the key",
    "__getattr__": "leads to a definition, which is followed",
}
"""Functions whose outcome is in the key, in place of their code."""

Place = tuple[str, int]
"""A function of ours: its module, and the line of its `def`, or of its first decorator."""


def chosen() -> list[str]:
    patterns = os.environ.get("EXPORTCOMPAT_KEY_CASES", " ".join(KINDS)).split()
    return [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


@contextmanager
def executed() -> Iterator[set[CodeType]]:
    """Give the code of every Python function that is called meanwhile."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@lru_cache(maxsize=None)
def run(name: str) -> tuple[dict[str, Any], frozenset[Place]]:
    from exportcompat.matrix.checks import check_case

    files = {str(path): module for module, path in modules().items()}
    with executed() as codes:
        row = check_case(CASES[name])
    places = {(files[code.co_filename], code.co_firstlineno) for code in codes if code.co_filename in files}
    # What is run when a module or a class is made is no function.
    return row, frozenset(place for place in places if node_of(*place) is not None)


@lru_cache(maxsize=1)
def modules() -> dict[str, Any]:
    names = [name for name in sys.modules if name.partition(".")[0] == "exportcompat"]
    found = {name: own_source().path(name) for name in names}
    return {name: path for name, path in found.items() if path}


def node_of(module: str, line: int) -> Any:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text_of(module))) if isinstance(node, kinds)]
    return next(
        (node for node in nodes if min([node, *node.decorator_list], key=lambda n: n.lineno).lineno == line), None
    )


def text_of(module: str) -> str:
    path = own_source().path(module)
    assert path is not None
    return path.read_text("utf-8")


def edited(module: str, line: int) -> SourceTree:
    """Return our source with one more constant in a function."""
    tree = ast.parse(text_of(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node, *node.decorator_list], key=lambda item: item.lineno)
            if first.lineno == line:
                node.body.append(ast.parse("20260101").body[0])
    return own_source().edited(module, ast.unparse(tree))


def places() -> list[tuple[str, Place]]:
    """Return each function that is executed for some case, once, with the first case that executes it."""
    found: dict[Place, str] = {}
    for name in chosen():
        for place in sorted(run(name)[1]):
            found.setdefault(place, name)
    return [(name, place) for place, name in found.items()]
