"""Run the notebook: `python docs/_site/run_notebook.py [FILE]` writes it with its results, without progress and noise.

The file is `docs/notebook.ipynb` itself if none is named. It fails where a cell does.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebook.ipynb"


def main(arguments: Sequence[str]) -> None:
    """Write the executed notebook.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails; the message has its code and the error.
    """
    target = Path(arguments[0]) if arguments else NOTEBOOK
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Its results are the same in any folder: it has one of its own.
    NotebookClient(notebook, timeout=1800, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


if __name__ == "__main__":
    main(sys.argv[1:])
