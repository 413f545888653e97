"""What a result depends on is what was executed for it: an edit of any function that ran makes the result old.

`nox -s keys` runs it on all cases; the usual ones are one of each kind.
"""

import ast
import fnmatch
import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="cases are exported and run")
pytest.importorskip("transformers", reason="cases are models of transformers")

import exportcompat
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.runs._own_proofs import is_older
from exportcompat.matrix.store import SourceTree, key, own_source
from exportcompat.matrix.store import _result_key as key_module
from exportcompat.matrix.store._dependencies import Dependencies, Part
from exportcompat.registry import installed_version

pytestmark = pytest.mark.skipif(is_older(), reason="what a key covers is read from our source, alike on each release")

RECORDER = Path(__file__).with_name("record_executed.py")
FOLDER = os.environ.get("EXPORTCOMPAT_KEY_RECORDS", "")
KINDS = "lfm2 llava bert whisper_decoder llama_export llama_script"
VERSIONS = {name: installed_version(name).base_version for name in ("torch", "transformers")}  # type: ignore[union-attr]
RECORDS = {
    "default_registry": "leads to the records of specs, which are in the key",
    "_names": "gives these their order, which is in the key",
    "area_of": "is for people",
    "find_case": "leads to the record of a case, which is in the key",
    "__getattr__": "leads to a definition, which is followed",
    "later": "makes such a `__getattr__`",
    "attribute": "is such a `__getattr__`",
}
"""Functions whose outcome is in the key, in place of their code."""

Place = tuple[str, int]
"""A function of ours: its module, and the line of its `def`, or of its first decorator."""


def chosen() -> list[str]:
    """Return the cases that the patterns name, as far as the installed release has their models."""
    patterns = os.environ.get("EXPORTCOMPAT_KEY_CASES", KINDS).split()
    named = [name for name in CASES if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return [name for name in named if CASES[name].exists()]


@lru_cache(maxsize=None)
def recorded(name: str) -> tuple[dict[str, Any], list[Place]]:
    """Return the result of a case, and the functions of ours that were called for it.

    With a folder for records a session that was ended goes on where it was; those of other sources are not taken.
    """
    kept = Path(FOLDER) / sources() / f"{name}.json" if FOLDER else None
    is_kept = kept is not None and kept.exists()
    line = kept.read_text("utf-8") if kept and is_kept else record(name)
    if kept and not is_kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(line, "utf-8")
    row, places = json.loads(line)
    return row, [(module, line) for module, line in places]


def record(name: str) -> str:
    """Run the recorder, and return its last line."""
    command = [sys.executable, "-W", "ignore", str(RECORDER), name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    return done.stdout.splitlines()[-1]


@lru_cache(maxsize=None)
def sources() -> str:
    """Return a hash of all of our source, and of the versions of the cell."""
    found = hashlib.sha256(repr(VERSIONS).encode())
    walked = os.walk(Path(exportcompat.__file__).parent, followlinks=True)
    for file in sorted(Path(folder) / name for folder, _, names in walked for name in names if name.endswith(".py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def functions(tree: ast.AST) -> Iterator[tuple[int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield min([node, *node.decorator_list], key=lambda item: item.lineno).lineno, node


@lru_cache(maxsize=None)
def text_of(module: str) -> str:
    path = own_source().path(module)
    assert path is not None
    return path.read_text("utf-8")


def edited(module: str, line: int) -> tuple[str, SourceTree]:
    """Return the name of a function, and our source with one more constant in it."""
    tree = ast.parse(text_of(module))
    (function,) = [node for first, node in functions(tree) if first == line]
    function.body.append(ast.parse("20260101").body[0])
    return function.name, own_source().edited(module, ast.unparse(tree))


def places() -> dict[Place, str]:
    """Return each function that is executed for some case, with the first case that executes it."""
    found: dict[Place, str] = {}
    with ThreadPoolExecutor(int(os.environ.get("EXPORTCOMPAT_KEY_JOBS", "1"))) as pool:
        list(pool.map(recorded, chosen()))
    for name in chosen():
        row, called = recorded(name)
        assert row["state"] in ("native", "patched"), (name, row["problems"])
        for place in called:
            found.setdefault(place, name)
    return found


@lru_cache(maxsize=None)
def covered(name: str) -> dict[str, list[Part]]:
    """Return what the key of a case covers, by module."""
    found: dict[str, list[Part]] = {}
    for part, _ in key_module.parts_of(CASES[name], VERSIONS, recorded(name)[0]):
        found.setdefault(part.definition.module, []).append(part)
    return found


def form(tree: SourceTree, part: Part) -> str:
    """Return what of a definition goes into a key."""
    return next(Dependencies(tree).walk([part]))[1]


def is_seen(module: str, name: str, tree: SourceTree) -> bool:
    """Say whether an edit of a module changes something that the key of a case covers."""
    return any(form(tree, part) != form(own_source(), part) for part in covered(name).get(module, ()))


def test_every_function_that_was_executed_is_in_the_key_and_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # One test, since what is recorded takes an export of each case.
    found = places()
    unseen, seen = [], 0
    for (module, line), name in found.items():
        function, changed = edited(module, line)
        if function not in RECORDS:
            is_new = is_seen(module, name, changed)
            seen += is_new
            unseen += [] if is_new else [f"{module}:{function} (line {line}, executed for {name})"]
    assert unseen == []
    assert seen > 300
    for (module, line), name in random.Random(0).sample(sorted(found.items()), 25):
        function, changed = edited(module, line)
        row, _ = recorded(name)
        before = key(CASES[name], VERSIONS, row)
        with monkeypatch.context() as patched:
            patched.setattr(key_module, "own_source", lambda changed=changed: changed)
            assert function in RECORDS or key(CASES[name], VERSIONS, row) != before, (module, function)
