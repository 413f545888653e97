"""Export ropes that depend on the length by the installed optimum-executorch, and compare the `.pte` with eager.

It prints a line for each case, and ends with status 1 where one is not right. `nox -s downstream` runs it with the
released package as it is, and with the recipe.
"""

import sys
import tempfile
from pathlib import Path

from optimum.exporters.executorch.recipes.portable import export_to_executorch_with_portable
from optimum.exporters.executorch.tasks.causal_lm import load_causal_lm_model

from exportcompat.matrix.cases import find_case
from exportcompat.matrix.lanes import find_lane

CASES = ("llama_dynamic",)
"""Cases that are checked; others can be named on the command line."""

LENGTH = 64


def main() -> int:
    """Check each case; return the number of those that are not right, at most 1."""
    outcomes = [check(name) for name in (sys.argv[1:] or CASES)]
    return int(not all(outcomes))


def check(name: str) -> bool:
    """Export a case as `optimum-cli export executorch` does, and say whether the result computes what eager does."""
    case, lane = find_case(name), find_lane("executorch")
    with tempfile.TemporaryDirectory() as folder:
        case.decoder().model.save_pretrained(folder)
        try:
            module = load_causal_lm_model(folder, max_seq_len=LENGTH)
            (program,) = export_to_executorch_with_portable(module).values()
        except Exception as error:
            # Any class: these are the tools of others.
            print(f"{name}: fails: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}", flush=True)
            return False
        (Path(folder) / "model.pte").write_bytes(program.buffer)
        rows = lane.compare(case, lane.load(Path(folder)))
    wrong = [row for row in rows if not row.success]
    worst = max(row.absolute for row in rows)
    print(f"{name}: {'wrong' if wrong else 'right'}: off by {worst:.2g} in {len(rows)} calls", flush=True)
    return not wrong


if __name__ == "__main__":
    raise SystemExit(main())
