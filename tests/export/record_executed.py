"""Check a case, and print its result with every function of ours that was called: `record_executed.py CASE`.

A program of its own, because the functions are marked when their modules are read; to trace all calls of Python would
take minutes.
"""

import ast
import json
import sys
from importlib import machinery
from types import CodeType
from typing import Any

CALLED: set[tuple[str, int]] = set()


class Marking(machinery.SourceFileLoader):
    """Reads a module so that each of its functions notes its module and its first line when it is called."""

    def path_stats(self, path: Any) -> Any:
        """Refuse to say when a file was written: bytecode of an earlier run would not be marked."""
        raise OSError(path)

    def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> CodeType:  # type: ignore[override]
        tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                line = min([node, *node.decorator_list], key=lambda item: item.lineno).lineno
                mark = ast.parse(f"__is_dynamo__() or __called__(({self.name!r}, {line}))").body
                # A docstring stays the first statement.
                node.body[ast.get_docstring(node) is not None : 0] = mark
        return compile(ast.fix_missing_locations(tree), path, "exec")


class Finder:
    """Finds modules of ours as they are, and has them marked."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != "exportcompat":
            return None
        spec = machinery.PathFinder.find_spec(name, path)
        if spec is not None and isinstance(spec.loader, machinery.SourceFileLoader):
            spec.loader = Marking(name, spec.loader.path)
        return spec


def main(name: str) -> None:
    """Print the result of a case and what was called."""
    import builtins

    import torch

    # Dynamo, which captures a model of a case, cannot follow the note; what it captures runs in eager mode, too.
    builtins.__is_dynamo__ = torch.compiler.is_dynamo_compiling  # type: ignore[attr-defined]
    builtins.__called__ = CALLED.add  # type: ignore[attr-defined]
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Finder())
    from exportcompat.matrix.cases import CASES
    from exportcompat.matrix.checks import check_case
    from exportcompat.patches import default_registry

    # What makes the records of specs is called once for a process; what they say is in the key.
    default_registry()
    CALLED.clear()
    row = check_case(CASES[name])
    print(json.dumps([row, sorted(CALLED)]))


if __name__ == "__main__":
    main(sys.argv[1])
