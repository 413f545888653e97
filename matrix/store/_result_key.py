"""What a result depends on: a change elsewhere leaves it as it is."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from exportcompat import plan
from exportcompat.matrix.cases import Call, Case
from exportcompat.matrix.versions import exclusion
from exportcompat.registry import PatchingSpec

from ._dependencies import Dependencies, Part, own_source
from ._source_tree import SourceTree

_NODE = re.compile(r"pytree\((.+)\)")
_MODEL = re.compile(r"transformers\.models(?:\.\w+)*\.modeling_\w+")
_IN_TORCH = re.compile(r"torch\.")
"""What is put in place there may be called in every scope of a check; uses are counted for that of the export."""
_NO_EXPORT = ("absent", "unsupported", "untested", "uninstallable")
CHECKS = ("exportcompat.matrix.checks._row:check_case", "exportcompat.matrix.checks._row:ablate")
_RECORDS = tuple(
    f"exportcompat.registry:{name}" for name in ("PatchingSpec", "Registry", "CompanionRule", "Fingerprints")
)
"""What the records of specs are made of: their methods do the work of a scope, whose code does not make them."""
_RECORD = "exportcompat.matrix.cases._case:Case"
_LED_TO = ("CASES", "SPECS", "find_case", "default_registry", "__getattr__", "__version__")
"""Names that lead to records and to definitions. What a record says is in the key, and a definition is followed."""


def key(case: Case, versions: Mapping[str, str], row: Mapping[str, Any]) -> str:
    """Return a digest of what a result depends on: the versions, what is said against the case, and `code_of`.

    Args:
        case: the case.
        versions: versions of packages by name, and of `python`.
        row: the result.
    """
    parts = [f"{name} {text}" for name, text in (*code_of(case, versions, row).items(), *sorted(versions.items()))]
    parts += filter(None, [exclusion(case.name, versions)])
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def code_of(
    case: Case, versions: Mapping[str, str], row: Mapping[str, Any], checks: tuple[str, ...] = CHECKS
) -> dict[str, str]:
    """Return what a result depends on of our own code, as texts and digests by name.

    That is: the record of the case and every definition of ours that its factory, its comparison and the check lead to;
    which specs apply and where they write, the factories of all that the export can reach, and what the factories of
    those that it used, or that write to torch, return. What a spec puts in place in a model and nobody calls can change
    without making the result old.
    Nothing is known of what a broken export would reach, so that depends on every spec that applies whole. Specs that
    were not applied, because they are for models which were not loaded or for caches of other classes, do not count.

    Args:
        case: see `key`.
        versions: see `key`.
        row: see `key`.
        checks: the functions that export and compare, as `"module:function"`.
    """
    tree = own_source()
    return {
        "record": _record(case),
        **{name: _digest(tree, *arguments) for name, arguments in _roots(case, versions, row, checks).items()},
    }


def parts_of(case: Case, versions: Mapping[str, str], row: Mapping[str, Any]) -> Iterator[tuple[Part, str]]:
    """Yield every definition of ours that `code_of` covers, with what it does."""
    tree = own_source()
    for functions, is_called, picks in _roots(case, versions, row).values():
        yield from _dependencies(tree, picks).walk(_parts(tree, functions, is_called=is_called))


def own_digest(functions: Iterable[str]) -> str:
    """Return a digest of every definition of ours that functions lead to, given as `"module:function"`."""
    return _digest(own_source(), tuple(functions), True, ())


Root = tuple[tuple[str, ...], bool, tuple[str, ...]]
"""Functions, whether what they return is called, and the names of settings that count."""


def _roots(
    case: Case, versions: Mapping[str, str], row: Mapping[str, Any], checks: tuple[str, ...] = CHECKS
) -> dict[str, Root]:
    """Return where the code begins that a result depends on, by a name for it."""
    functions = tuple(item.function for item in _calls(case))
    found: dict[str, Root] = {"catalogue": ((_RECORD,), True, ()), "case": (functions, True, _picks(case))}
    if row["state"] not in _NO_EXPORT:
        found["check"] = ((*checks, *_RECORDS), True, ())
        for spec, is_called in _reached(row, versions):
            name = f"{spec.id} {spec.kind} {' '.join(spec.targets)}"
            found[name] = ((spec.replacement,), is_called, ())
    return found


def _record(case: Case) -> str:
    """Return what the record of a case says, but not what is for people, nor where and when it is run."""
    calls = [(item.arguments, item.keywords) for item in _calls(case)]
    return repr((case.name, case.exclude, case.is_captured, calls))


def _calls(case: Case) -> list[Call]:
    found = (case.make, case.exists, case.around, case.compare, case.write)
    return [item for item in found if isinstance(item, Call)]


def _picks(case: Case) -> tuple[str, ...]:
    """Return the name of the settings of a case: the first argument of its factory."""
    return tuple(item for item in case.make.arguments[:1] if isinstance(item, str))


@lru_cache(maxsize=None)
def _digest(tree: SourceTree, functions: tuple[str, ...], is_called: bool, picks: tuple[str, ...]) -> str:
    return _dependencies(tree, picks).digest(_parts(tree, functions, is_called=is_called))


def _dependencies(tree: SourceTree, picks: tuple[str, ...]) -> Dependencies:
    return Dependencies(tree, picks, _LED_TO)


def _parts(tree: SourceTree, functions: Iterable[str], *, is_called: bool) -> Iterator[Part]:
    for function in functions:
        module, _, name = function.partition(":")
        definition = tree.definition(module, name)
        # What a call has made is a function inside of another, and is what is called.
        yield Part(definition, is_called or not tree.is_function(definition))


def _reached(row: Mapping[str, Any], versions: Mapping[str, str]) -> Iterator[tuple[PatchingSpec, bool]]:
    """Yield the specs that a result depends on, in order, and whether what they put in place may have been called."""
    does_work, used = row["state"] in ("native", "patched"), row.get("used", ())
    made = {*used, *row.get("applied", ())}
    for spec in _applying(tuple(sorted(versions.items()))):
        # What was applied has had its factory called, whether or not the export could come to it.
        if spec.id in made or any(_can_reach(target, row) for target in spec.targets):
            yield spec, not does_work or spec.id in used or any(_IN_TORCH.match(target) for target in spec.targets)


def _can_reach(target: str, row: Mapping[str, Any]) -> bool:
    """Say whether an export may come to a target; what a result does not tell may be anything."""
    node, model = _NODE.fullmatch(target), _MODEL.search(target)
    if node and "caches" in row:
        return node[1] in row["caches"]
    return model is None or model[0] in row.get("modules", [model[0]])


@lru_cache(maxsize=None)
def _applying(versions: tuple[tuple[str, str], ...]) -> list[PatchingSpec]:
    """Return the specs that are for these versions, in the order in which they are applied."""
    known = {name: text for name, text in versions if name != "python"}
    return [item.spec for item in plan(known) if item.applies]
