"""Conditions on arguments behind `*args` or `**kwargs` name what the exported module does not have.

Symptom: `NameError: name 'L' is not defined`, while the graph is decomposed for ONNX.
Cause: torch 2.9 turns the conditions that were met while tracing into a function of the placeholders. They name an
argument as the signature does (`L['args'][0]`, `L['kwargs']['y']`), and the placeholder is known by another name
(`L['args_0']`, `L['y']`).
What is done: the conditions are given the names of the placeholders.
Can go: with torch 2.9; 2.10 exports the same models without it (run on 2.9.1, 2.10.0 and 2.13.0).
"""

import re
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec

_SOURCE = re.compile(r"L\['(?P<root>\w+)'\]\[(?:(?P<index>\d+)|'(?P<name>\w+)')\]")


def patch_convert_guards_code_to_fn(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_convert_guards_code_to_fn` take conditions with the names of the signature."""

    def _convert_guards_code_to_fn(guards_code: Any, paths_of_placeholders: Any) -> Any:
        roots = {str(path[0].key) for path in paths_of_placeholders}
        return original([_renamed(code, roots) for code in guards_code], paths_of_placeholders)

    return _convert_guards_code_to_fn


def _renamed(code: str, roots: set[str]) -> str:
    """Return a condition in which what is behind `*` or `**` has the name of its placeholder."""

    def name(found: re.Match[str]) -> str:
        flat = found["name"] or f"{found['root']}_{found['index']}"
        return f"L['{flat}']" if found["root"] not in roots and flat in roots else found[0]

    return _SOURCE.sub(name, code)


SPECS = (
    PatchingSpec(
        id="torch-export-guard-names",
        targets=("torch.export._unlift:_convert_guards_code_to_fn",),
        replacement=f"{__name__}:patch_convert_guards_code_to_fn",
        requires=("torch>=2.9,<2.10",),
        reason="Conditions on arguments behind *args or **kwargs have names that the graph does not know: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.9.1/torch/export/_unlift.py",),
        proofs=("open_gpt",),
        kind="wrap",
    ),
)
