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
