"""Measure entering one patcher's scope in this process, and print the result as JSON.

`run.py` starts this program once for every sample, because an entry is the first one only once in a process.
torch, transformers and one model, or as many as are asked for, are imported before the clock starts; so is the
patcher's own package.
"""

import argparse
import contextlib
import importlib
import json
import pkgutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

Scope = Callable[[], AbstractContextManager[Any]]


def exportcompat_scope() -> Scope:
    """Return the scope of this project."""
    from exportcompat import apply_patches

    return apply_patches


def transformers_scope() -> Scope:
    """Return the two scopes that transformers' own ONNX exporter enters, one inside the other.

    Raises:
        ImportError: transformers is older than 5.13.
    """
    # The patches are registered when these two are imported.
    import transformers.exporters.exporter_dynamo
    import transformers.exporters.exporter_onnx  # noqa: F401
    from transformers.exporters.utils import apply_patches

    @contextlib.contextmanager
    def both() -> Iterator[None]:
        with ExitStack() as stack:
            for backend in ("dynamo", "onnx"):
                stack.enter_context(apply_patches(backend))
            yield

    return both


def onnx_diagnostic_scope() -> Scope:
    """Return the scope of onnx-diagnostic.

    Raises:
        ImportError: onnx-diagnostic is not installed.
    """
    from onnx_diagnostic.torch_export_patches import torch_export_patches

    return lambda: torch_export_patches(patch_transformers=True)


PATCHERS = {
    "exportcompat": exportcompat_scope,
    "transformers": transformers_scope,
    "onnx-diagnostic": onnx_diagnostic_scope,
}


def import_models(count: int) -> None:
    """Import the modules of `count` models, evenly from all that transformers has."""
    import transformers.models

    found = [item.name for item in pkgutil.iter_modules(transformers.models.__path__) if item.ispkg]
    loaded = 0
    for name in found[:: max(len(found) // (count + 20), 1)]:
        if loaded == count:
            break
        # Some have no module of this name, or need packages that are not installed.
        with contextlib.suppress(Exception):
            importlib.import_module(f"transformers.models.{name}.modeling_{name}")
            loaded += 1


def measure(scope: Scope, later: int) -> dict[str, Any]:
    """Return the times of the first and of later entries, and the modules other than ours that the first one added."""
    before = set(sys.modules)
    first = entry_time(scope)
    added = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] != "exportcompat")
    return {"first_ms": first, "later_ms": [entry_time(scope) for _ in range(later)], "modules": added}


def entry_time(scope: Scope) -> float:
    """Return the milliseconds that making and entering the scope takes; leaving it is not counted."""
    start = time.perf_counter()
    with scope():
        return (time.perf_counter() - start) * 1e3


def main() -> int:
    """Print the measurement, or null where the patcher is not installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patcher", choices=PATCHERS)
    parser.add_argument("--later", type=int, default=20, help="number of later entries")
    parser.add_argument("--models", type=int, default=0, help="number of other models whose modules are imported")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        # The name is looked up on purpose: it makes transformers import the model's module.
        from transformers import LlamaForCausalLM  # noqa: F401

        import_models(arguments.models)
        scope = PATCHERS[arguments.patcher]()
    except ImportError:
        result = None
    else:
        result = measure(scope, arguments.later)
    sys.stdout.write(f"\n{json.dumps(result)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
