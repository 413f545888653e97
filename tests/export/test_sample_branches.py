"""Where an older exporter answers a question about data by the sample, that is said."""

import inspect
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a model is captured")

from torch import nn

from exportcompat import AssumptionError, AssumptionWarning, apply_patches, plan
from exportcompat.patches.torch_onnx.sample_branches import patch_draft, patch_trace


class Branching(nn.Module):  # type: ignore[misc,unused-ignore]
    """Goes one way or another by its data, twice by the same line."""

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.turned(x)
        return x

    def turned(self, x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x - 1


LINE = inspect.getsourcelines(Branching.turned)[1] + 1


class Straight(nn.Module):  # type: ignore[misc,unused-ignore]
    """Asks nothing."""

    def forward(self, x: Any) -> Any:
        warnings.warn("a model's own", UserWarning, stacklevel=1)
        return x.reshape(x.shape[0], -1)


def trace(self: Any, model: Any, args: Any) -> Any:
    """Capture a model as the exporter of torch 2.7 does where it cannot otherwise."""
    return torch.jit.trace(model, args)


def the_one(report: Any) -> Any:
    assert len(report.assumptions) == 1
    return report.assumptions[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_a_trace_has_answered_is_told_once_with_its_line() -> None:
    with apply_patches(on_assumption="ignore") as report:
        patch_trace(trace)(None, Branching(), (torch.ones(2, 3),))
    told = the_one(report)
    assert (told.file, told.line, told.function, told.source) == (__file__, LINE, "turned", "if x.sum() > 0:")
    assert "the answer that it has for the sample" in str(told)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_warnings_of_a_trace_are_given_and_no_assumptions() -> None:
    with apply_patches(on_assumption="error") as report, pytest.warns(UserWarning, match="a model's own"):
        patch_trace(trace)(None, Straight(), (torch.ones(2, 3),))
    assert not report.assumptions


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_trace_stops_where_that_is_asked_for() -> None:
    with pytest.raises(AssumptionError), apply_patches(on_assumption="error"):
        patch_trace(trace)(None, Branching(), (torch.ones(2, 3),))


def test_what_a_draft_has_answered_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._logging.structured.INTERN_TABLE", {"other.py": 0, __file__: 1})
    frame = {"line": LINE, "name": "turned", "filename": 1}

    def failure(name: str, stack: Any) -> Any:
        return SimpleNamespace(failure_type=SimpleNamespace(name=name), data={"user_stack": stack})

    asked = [failure("DATA_DEPENDENT_ERROR", [{**frame, "filename": 0}, frame])] * 2
    others = [failure("GUARD_ADDED", [frame]), failure("DATA_DEPENDENT_ERROR", [])]
    program = SimpleNamespace(_report=SimpleNamespace(failures=[*asked, *others]))
    with apply_patches(on_assumption="warn") as report, pytest.warns(AssumptionWarning, match="turned: if x.sum"):
        assert patch_draft(lambda self: program)(None) is program
    assert (the_one(report).file, the_one(report).line) == (__file__, LINE)


@pytest.mark.skipif(
    not any(item.applies for item in plan() if item.spec.id == "torch-onnx-sample-branches"),
    reason="from torch 2.9 on such a model does not export",
)
def test_a_file_that_has_one_side_says_so() -> None:
    with apply_patches(on_assumption="ignore") as report:
        program = torch.onnx.export(Branching().eval(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    assert program.model.graph
    assert (the_one(report).file, the_one(report).line) == (__file__, LINE)
