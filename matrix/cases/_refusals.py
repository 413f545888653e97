"""Calls that eager refuses: a file has to refuse them as well, and not to give numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from exportcompat._verification import Discrepancy, OnnxFile

from ._qwen_vl_models import _IMAGE, ImageText, Page


def compare_refusals(path: Path, make: Callable[[], ImageText]) -> list[Discrepancy]:
    """Run calls whose texts have a place less than their images have features.

    Args:
        path: an ONNX file.
        make: makes the model.

    Raises:
        ExportCompatError: the file cannot be loaded.
    """
    file, subject = OnnxFile(path), make()
    return [_row(file, subject.reference(), shape) for shape in subject.shapes if shape[1]]


def _row(file: OnnxFile, subject: Any, shape: Page) -> Discrepancy:
    inputs = subject.inputs(shape)
    row, column = (inputs["input_ids"] == _IMAGE).nonzero()[0].tolist()
    inputs["input_ids"][row, column] = 9
    feeds = {name: value for name, value in inputs.items() if name in file.inputs}
    call = f"shape {shape}, a place less"
    for name, run in (("eager", lambda: subject.run(inputs)), ("the file", lambda: file.run(feeds))):
        if not _refuses(run):
            return Discrepancy(call=call, error=f"{name} does not refuse the call")
    return Discrepancy(call=call, absolute=0.0, relative=0.0, share=0.0, success=True)


def _refuses(run: Callable[[], Any]) -> bool:
    try:
        run()
    except Exception:  # Eager and the runtime raise errors of their own.
        return True
    return False
