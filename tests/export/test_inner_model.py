"""The model inside of adapters and of `torch.compile` is what is watched and exported."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="models are modules of torch")

from exportcompat import ExportCompatError
from exportcompat._observer import InputObserver, inner_model

Module: Any = torch.nn.Module


class PeftModel(Module):  # type: ignore[misc,unused-ignore]
    """What PEFT puts around a model, as far as an export meets it."""

    def __init__(self, base: Any, *, is_prompt_learning: bool = False) -> None:
        super().__init__()
        self.base, self.active_peft_config = base, SimpleNamespace(is_prompt_learning=is_prompt_learning)

    def get_base_model(self) -> Any:
        return self.base

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.base(*args, **kwargs)


@pytest.fixture(autouse=True)
def _peft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", SimpleNamespace(PeftModel=PeftModel))


def test_what_is_around_a_model_is_taken_off() -> None:
    model = torch.nn.Linear(2, 3)
    assert inner_model(model) is model
    for around in (
        PeftModel(model),
        torch.compile(model),
        torch.compile(PeftModel(model)),
        PeftModel(PeftModel(model)),
    ):
        assert inner_model(around) is model


def test_calls_of_the_model_inside_are_observed() -> None:
    model = PeftModel(torch.nn.Linear(2, 3))
    observer = InputObserver()
    with observer(model):
        model(torch.ones(4, 2))
    assert list(observer.infer_arguments()) == ["input"]


def test_learned_tokens_are_refused() -> None:
    with pytest.raises(ExportCompatError, match="learned tokens before the text.*inputs_embeds"):
        inner_model(PeftModel(torch.nn.Linear(2, 3), is_prompt_learning=True))


class Twice(Module):  # type: ignore[misc,unused-ignore]
    """A model of one layer, both of which may be compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def refuse(*_: Any, **__: Any) -> Any:
    raise AssertionError("compiled code was called")


def test_modules_that_were_compiled_where_they_are_are_watched_as_they_are_written() -> None:
    model = Twice()
    model.compile(backend=refuse)
    model.layer.forward = torch.compile(model.layer.forward, backend=refuse)
    call, forward = model._compiled_call_impl, model.layer.forward
    observer = InputObserver()
    with observer(model):
        model(torch.zeros(1, 2))
    assert len(observer) == 1
    assert model._compiled_call_impl is call
    assert model.layer.forward is forward
    assert "forward" not in vars(model)
    with pytest.raises(Exception, match="compiled code was called"):
        model(torch.zeros(1, 2))
