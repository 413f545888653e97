"""Export decoders by the installed Olive, `OnnxConversion(use_dynamo_exporter=True)`, and compare them with eager.

It prints a line for each case, and ends with status 1 where one is not right. `nox -s downstream` runs it with the
released package as it is, and with the recipe.
"""

import sys
import tempfile
from pathlib import Path

from olive.model import HfModelHandler
from olive.passes.olive_pass import create_pass_from_dict
from olive.passes.onnx.conversion import OnnxConversion

from exportcompat.matrix.cases import find_case

CASES = ("llama", "phi3_longrope", "llama_dynamic", "mixtral")
"""Cases that are checked; others can be named on the command line."""


def main() -> int:
    """Check each case; return the number of those that are not right, at most 1."""
    outcomes = [check(name) for name in (sys.argv[1:] or CASES)]
    return int(not all(outcomes))


def check(name: str) -> bool:
    """Export a case as Olive does, and say whether the file computes what eager does and transformers is as it was."""
    case, before = find_case(name), _transformers_state()
    with tempfile.TemporaryDirectory() as folder:
        case.decoder().model.save_pretrained(folder)
        try:
            path = export(Path(folder))
        except Exception as error:
            # Any class: these are the tools of others.
            print(f"{name}: fails: {type(error).__name__}: {_telling(error)}", flush=True)
            return False
        left = _transformers_state() != before
        rows = case.compare(path, case.decoder)
    wrong = [row for row in rows if not row.success]
    worst = max(row.absolute for row in rows)
    state = ", and transformers is not as it was" if left else ""
    print(f"{name}: {'wrong' if wrong else 'right'}: off by {worst:.2g} in {len(rows)} calls{state}", flush=True)
    return not wrong and not left


def export(folder: Path) -> Path:
    """Return the file that Olive makes of the model in a folder."""
    options = {"use_dynamo_exporter": True, "torch_dtype": "float32"}
    conversion = create_pass_from_dict(OnnxConversion, options, disable_search=True)
    handler = HfModelHandler(model_path=str(folder), task="text-generation-with-past")
    return Path(conversion.run(handler, str(folder / "onnx")).model_path)


def _transformers_state() -> object:
    """Return what an export may leave behind on a class that every model has."""
    from transformers import cache_utils

    return getattr(getattr(cache_utils, "DynamicLayer", None), "lazy_initialization", None)


def _telling(error: Exception) -> str:
    text = str(error)
    _, found, rest = text.partition("## Exception summary")
    return " ".join((rest if found else text).split())[:200]


if __name__ == "__main__":
    raise SystemExit(main())
