"""Fingerprints of upstream sources: is a target still the one that its spec was proved against?

The fingerprint is a hash of the syntax tree without docstrings, comments and annotations, so a release that only
rewords or re-types a function has not changed it. It does not depend on the Python version.
"""

import ast
import inspect
import linecache
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from ._errors import ExportCompatError

_SKIPPED_FIELDS = frozenset(
    {"annotation", "returns", "ctx", "kind", "type_comment", "type_ignores", "type_params", "lineno"}
)
_PARSING = threading.Lock()
_ATTEMPTS = 20
BUILTIN = "builtin"
"""The fingerprint of what has no Python source."""


class Fingerprints:
    """The sources that were proved: for each target, the releases in which each fingerprint was found.

    Args:
        path: a JSON file `{"target": {"fingerprint": ["4.57.6", ...]}, "texts": {"key": "fingerprint"}, ...}`; it is
            read when first needed. `"texts"` spares the parsing of sources that were proved to the letter. `"seen"`
            has, in the same form, the releases that have a source, `"signatures"` the arguments of each, and
            `"occurrences"` where else the defect of a spec is, by id.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: Mapping[str, Any] | None = None
        self._known: dict[CodeType, str] = {}

    def releases(self, target: str) -> Mapping[str, list[str]]:
        """Return the releases by fingerprint of `target`; empty if it was never proved.

        Raises:
            ExportCompatError: the file is missing, truncated or not of this form.
        """
        found: Mapping[str, list[str]] = self._read().get(target, {})
        return found

    def seen(self, target: str) -> Mapping[str, list[str]]:
        """Return the releases in which each source of `target` was found, proved or not, by fingerprint."""
        found: Mapping[str, list[str]] = self._read().get("seen", {}).get(target, {})
        return found

    def occurrences(self, spec_id: str) -> list[str] | None:
        """Return where else the defect of a spec was found, as `module:name`; None if nobody has looked."""
        found: list[str] | None = self._read().get("occurrences", {}).get(spec_id)
        return found

    def of(self, source: Any) -> str:
        """Return `fingerprint(source)`, from the text alone where the lock file has it.

        Raises:
            ExportCompatError: see `releases`.
        """
        code = _code_of(source)
        if code is None:
            return fingerprint(source)
        if code not in self._known:
            self._known[code] = self._read().get("texts", {}).get(source_hash(source)) or fingerprint(source)
        return self._known[code]

    def __reduce__(self) -> tuple[type["Fingerprints"], tuple[Path]]:
        # Specs go to other processes, and what was read or computed need not.
        return Fingerprints, (self.path,)

    def _read(self) -> Mapping[str, Any]:
        if self._lock is None:
            self._lock = self._load()
        return self._lock

    def _load(self) -> Mapping[str, Any]:
        import json

        try:
            found = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ExportCompatError(
                f"the lock file {self.path} cannot be read: {error}; reinstall the package"
            ) from None
        if not isinstance(found, dict) or not all(isinstance(value, dict) for value in found.values()):
            raise ExportCompatError(f"the lock file {self.path} maps no targets to fingerprints; reinstall the package")
        return found


def fingerprint(source: Any) -> str:
    """Return 12 hexadecimal digits for the source of a function or class, or `"builtin"` if it has none."""
    code = _code_of(source)
    if code is not None:
        return _of_code(code)
    try:
        return of_text(inspect.getsource(source))
    except (OSError, TypeError):
        return BUILTIN


def source_hash(source: Any) -> str:
    """Return 16 hexadecimal digits for the source of a function to the letter; empty if there is none."""
    import hashlib

    code = _code_of(source)
    if code is None:
        return ""
    try:
        return hashlib.sha256(_quick_source(code).encode()).hexdigest()[:16]
    except ValueError:
        return ""


def of_text(text: str) -> str:
    """Return the fingerprint of a function or class from its source text.

    Raises:
        SyntaxError: the text is not Python.
    """
    import textwrap

    (node,) = _parse(textwrap.dedent(text)).body
    return of_node(node)


def of_node(node: ast.AST | None) -> str:
    """Return the fingerprint of a function or class from its syntax tree; `"builtin"` if it has none."""
    import hashlib

    if node is None:
        return BUILTIN
    parts: list[str] = []
    _walk(node, parts)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _code_of(source: Any) -> CodeType | None:
    code = getattr(inspect.unwrap(source), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _parse(text: str) -> ast.Module:
    # Some releases of CPython count the depth of all threads' parsers together, and fail at random when several
    # parse at once (python/cpython#106905). The lock is for our own threads, the attempts for those of others.
    with _PARSING:
        for _ in range(_ATTEMPTS):
            try:
                return ast.parse(text)
            except SystemError:
                continue
        return ast.parse(text)


@cache
def _of_code(code: CodeType) -> str:
    try:
        return of_text(_quick_source(code))
    except (SyntaxError, ValueError):
        pass
    try:
        return of_text(inspect.getsource(code))
    except (OSError, SyntaxError, ValueError):
        return BUILTIN


def _quick_source(code: CodeType) -> str:
    # inspect.getsource runs the pure Python tokenizer, which takes 2 ms for a long function.
    lines = linecache.getlines(code.co_filename)
    first = code.co_firstlineno - 1
    if not 0 <= first < len(lines):
        raise ValueError(f"{code.co_filename} has no line {code.co_firstlineno}")
    indent = _indent(lines[first])
    end = max(_last_lines(code))
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    return "".join(lines[first:end])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _last_lines(code: CodeType) -> Iterator[int]:
    yield max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _last_lines(const)


def _walk(node: Any, parts: list[str]) -> None:
    """Append the tree in a form that no Python version changes: empty fields are left out."""
    if isinstance(node, ast.AST):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign(targets=[node.target], value=node.value)
        parts.append(f"({type(node).__name__}")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != [] and name not in _SKIPPED_FIELDS:
                parts.append(name)
                _walk(_without_docstring(node, value) if name == "body" else value, parts)
        parts.append(")")
    elif isinstance(node, list):
        for item in node:
            _walk(item, parts)
    else:
        # Which characters repr() prints as they are depends on Python's Unicode tables.
        parts.append(ascii(node))


def _without_docstring(node: ast.AST, value: Any) -> Any:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return value
    first = value[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return value[1:] if is_text else value
