"""What a result depends on: a change elsewhere leaves it as it is."""

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from importlib.util import resolve_name
from inspect import getsource, isfunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import exportcompat
from exportcompat import patches, plan
from exportcompat.matrix.cases import SETTINGS, SIZES
from exportcompat.matrix.versions import exclusion

if TYPE_CHECKING:
    from exportcompat.matrix.cases import Case

_MATRIX = Path(__file__).parents[1]
_COMPARISON = tuple(f"_verification/{name}.py" for name in ("_onnx_decoder", "_discrepancy", "_schedules"))
_CHECK = (
    *(_MATRIX / "checks" / name for name in ("_check.py", "_restoration.py")),
    *(_MATRIX / "cases" / name for name in ("_decoder.py", "_pairs_wrapper.py", "_toy_gpt_models.py")),
    *(_MATRIX / "models" / name for name in ("_decoder.py", "tiny_gpt.py")),
    *(Path(exportcompat.__path__[0]) / name for name in _COMPARISON),
)
_PATCHES = f"{patches.__name__}."
_NODE = re.compile(r"pytree\((.+)\)")
_MODEL = re.compile(r"transformers\.models(?:\.\w+)*\.modeling_\w+")
_NO_EXPORT = ("absent", "unsupported", "untested", "uninstallable")


def key(case: "Case", versions: Mapping[str, str], row: Mapping[str, Any]) -> str:
    """Return a digest of what a result depends on.

    That is: the versions, the definition of the case, the source of the check, which specs apply and where they write,
    and the source of those that the export used. A spec that was applied and never reached can change without making
    the result old. Nothing is known of what a broken export would reach, so that depends on every spec that applies.
    Specs that are for models which were not loaded, or for caches of other classes, do not count.

    Args:
        case: the case.
        versions: versions of packages by name, and of `python`.
        row: the result.
    """
    parts = [*_definition(case), *(f"{name} {text}" for name, text in sorted(versions.items()))]
    parts += filter(None, [exclusion(case.name, versions)])
    if row["state"] not in _NO_EXPORT:
        parts += [_source(path) for path in _CHECK]
        parts += _specs(row, versions["torch"], versions["transformers"])
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@lru_cache(maxsize=None)
def _definition(case: "Case") -> list[str]:
    """Return the name of a case, how its model is made, from which settings, and in which surroundings."""
    make = case.make if isinstance(case.make, partial) else partial(case.make)
    settings = [SETTINGS[name] for name in make.args if name in SETTINGS]
    functions: list[Any] = [make.func, *([case.around] if isfunction(case.around) else [])]
    data = repr([case.name, case.exclude, make.args, make.keywords, settings, SIZES if settings else None])
    files = [_source(_MATRIX / "cases" / name) for name in case.sources]
    return [data, *(_code(getsource(function)) for function in functions), *files]


def _specs(row: Mapping[str, Any], torch: str, transformers: str) -> Iterator[str]:
    does_work, used = row["state"] in ("native", "patched"), row.get("used", ())
    for spec_id, targets, module in _applying(torch, transformers):
        if spec_id in used or any(_can_reach(target, row) for target in targets):
            yield f"{spec_id} {' '.join(targets)}"
            if not does_work or spec_id in used:
                yield from map(_source, _modules(module))


def _can_reach(target: str, row: Mapping[str, Any]) -> bool:
    """Say whether an export may come to a target; what a result does not tell may be anything."""
    node, model = _NODE.fullmatch(target), _MODEL.search(target)
    if node and "caches" in row:
        return node[1] in row["caches"]
    return model is None or model[0] in row.get("modules", [model[0]])


@lru_cache(maxsize=None)
def _applying(torch: str, transformers: str) -> list[tuple[str, tuple[str, ...], str]]:
    """Return id, targets and module of each spec that is for these versions."""
    specs = [item.spec for item in plan({"torch": torch, "transformers": transformers}) if item.applies]
    return [
        (
            spec.id,
            tuple(target.text for target in spec.places),
            spec.replacement.partition(":")[0].removeprefix(_PATCHES),
        )
        for spec in specs
    ]


def _modules(name: str) -> list[Path]:
    """Return the file of a spec's replacement, and those of `patches` that it imports."""
    found, queue = list[str](), [name]
    while queue:
        current = queue.pop()
        if current not in found:
            found.append(current)
            queue += _neighbours(current)
    return [_path(item) for item in sorted(found)]


@lru_cache(maxsize=None)
def _neighbours(name: str) -> list[str]:
    package = f"{_PATCHES}{name}".rpartition(".")[0]
    nodes = [node for node in ast.walk(ast.parse(_path(name).read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
    found = [resolve_name("." * node.level + (node.module or ""), package) for node in nodes]
    return [module.removeprefix(_PATCHES) for module in found if module.startswith(_PATCHES)]


def _path(name: str) -> Path:
    return Path(patches.__path__[0], *name.split(".")).with_suffix(".py")


@lru_cache(maxsize=None)
def _source(path: Path) -> str:
    """Return a digest of the code of a file without comments, docstrings and layout."""
    return _code(path.read_text("utf-8"))


def _code(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_record(item)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_record(node: ast.AST) -> bool:
    """Say whether a statement is a text, or makes the records of specs, whose part that matters is in the plan."""
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets] == ["SPECS"]
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        return ast.unparse(node.returns) == "PatchingSpec"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
