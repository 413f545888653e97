"""A file in half precision that cannot be right as it is, although its copy in float32 is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from exportcompat import export
from exportcompat._verification import OnnxFile


def infinite(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with one element that was too large for the type."""
    return tensor.index_fill(0, torch.tensor([0]), float("inf"))


def far(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in which every element is off."""
    return tensor + 0.5


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (infinite, "'output' has NaN or infinity where the copy in float32 has numbers"),
        (far, "most elements of 'output' are off from the copy in float32"),
    ],
)
def test_a_file_that_is_wrong_in_half_precision_alone(
    damaged: Callable[[torch.Tensor], torch.Tensor], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer: Any = torch.nn.Linear(4, 4).eval().half()
    calls = [{"input": torch.randn(rows, 4, dtype=torch.float16)} for rows in (3, 5)]
    result = export(layer, calls, tmp_path / "model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result)
    run = OnnxFile.run

    def run_damaged(file: OnnxFile, feeds: Any) -> Any:
        return {
            name: damaged(tensor) if tensor.dtype == torch.float16 else tensor
            for name, tensor in run(file, feeds).items()
        }

    monkeypatch.setattr(OnnxFile, "run", run_damaged)
    result = export(layer, calls, tmp_path / "other.onnx")
    assert result.discrepancies is not None
    (failed,) = [row for row in result.discrepancies if not row.success]
    assert failed.call == "run in float16"
    assert said in failed.error, failed.error
