"""A recurrence without a loop over its tokens: the same states as with one, and no number where it does not reach."""

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="states are tensors")

from exportcompat.patches.recurrent import _parallel_scan


def looped(decay: Any, entered: Any, state: Any) -> Any:
    steps = zip(decay, entered, strict=True)
    states = itertools.accumulate(steps, lambda old, now: now[0] * old + now[1], initial=state)
    return torch.stack(list(states)[1:])


@pytest.mark.parametrize("tokens", [1, 2, 3, 8, 13, 100])
@pytest.mark.parametrize("least", [0.0, 0.9])
def test_states_are_those_of_a_loop(tokens: int, least: float) -> None:
    torch.manual_seed(tokens)
    decay, entered = least + (1 - least) * torch.rand(tokens, 2, 3), torch.randn(tokens, 2, 3)
    decay[tokens // 2] = 0
    state = torch.randn(2, 3)
    found = _parallel_scan.parallel_scan(decay, entered, state)
    torch.testing.assert_close(found, looped(decay, entered, state), rtol=1e-5, atol=1e-5)


def test_tokens_that_are_not_reached_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parallel_scan, "STEPS", 2)
    decay, entered, state = torch.full((6, 1), 0.5), torch.ones(6, 1), torch.ones(1)
    found = _parallel_scan.parallel_scan(decay, entered, state)
    torch.testing.assert_close(found[:4], looped(decay, entered, state)[:4])
    assert found[4:].isnan().all()
