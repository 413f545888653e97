"""Models that draw random numbers cannot be compared, and are refused before anything is written."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("onnxruntime", reason="files are compared")

from exportcompat import ExportCompatError, export
from exportcompat._observer import check_repeatable, observe

INPUTS = {"x": torch.linspace(0, 3, 8).reshape(2, 4)}


Module: Any = torch.nn.Module


class Noisy(Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.scale = scale

    def forward(self, x: Any) -> Any:
        return x * self.weight + self.scale * torch.randn_like(x)


def test_a_model_whose_results_differ_from_call_to_call_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match=r"Noisy\.forward draws random numbers.*sample=False.*verify=False"):
        export(Noisy(1.0).eval(), INPUTS, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_check_draws_none_of_the_numbers_of_the_user() -> None:
    observer = observe(Noisy(1.0).eval(), INPUTS)
    state = torch.random.get_rng_state()
    with pytest.raises(ExportCompatError, match="draws random numbers"):
        check_repeatable(observer)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_numbers_that_change_nothing_are_no_reason_to_refuse() -> None:
    check_repeatable(observe(Noisy(0.0).eval(), INPUTS))


class Masked(Noisy):
    def forward(self, x: Any, mask: Any = None) -> Any:
        return super().forward(x if mask is None else x * mask)


def test_an_argument_that_was_none_is_none_in_the_other_call_too() -> None:
    check_repeatable(observe(Masked(0.0).eval(), {**INPUTS, "mask": None}))


def test_without_a_comparison_the_file_is_written(tmp_path: Path) -> None:
    export(Noisy(1.0).eval(), INPUTS, tmp_path, verify=False)
    assert (tmp_path / "model.onnx").exists()
