"""Results of a season: where they are, and whether upstream itself can export anything there."""

import subprocess
import sys
from pathlib import Path

from exportcompat.matrix.store import file_name
from exportcompat.matrix.versions import PYTHON

_LINEAR = """
import os, sys, tempfile, torch
with tempfile.TemporaryDirectory() as folder:
    program = torch.onnx.export(torch.nn.Linear(2, 2).eval(), (torch.ones(2, 2),), dynamo=True)
    program.save(os.path.join(folder, "linear.onnx"))
"""


def result_path(folder: Path, transformers: str, torch: str, season: str, python: str = PYTHON) -> Path:
    """Return the file of a cell.

    Those of seasons are in a folder of their own: whoever reads all files of the other one takes each for the only one
    of its transformers and torch. So has each Python but the usual one.
    """
    name = file_name(transformers, torch)
    other = f"_python-{python}" if python != PYTHON else ""
    return folder / "seasons" / name.replace(".json", f"_season-{season}{other}.json") if season else folder / name


def linear_problem() -> str:
    """Return why torch cannot export one linear layer with what is installed, without patches; empty if it can."""
    # What is imported for this must not be there when the cases are forked.
    done = subprocess.run([sys.executable, "-c", _LINEAR], capture_output=True, text=True, check=False)
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"upstream itself cannot export a linear layer with these packages: {last[:300]}" if done.returncode else ""
