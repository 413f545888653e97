"""A model is as it was after all tries of the exporter, and between them has no tensors of the last one."""

from collections import deque
from contextlib import suppress
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="modules are torch's")

from torch import nn

from exportcompat import apply_patches
from exportcompat.patches.toolkit.module_state import kept_for_next_try, kept_through


class Storing(nn.Module):  # type: ignore[misc,unused-ignore]
    """Stores a tensor, a number and a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("table", torch.ones(2))
        self.length = 2

    def store(self) -> None:
        self.seen = self.table = torch.zeros(2)
        self.length = 3
        self.layer.register_forward_hook(lambda *_: None)


def held(model: Any) -> list[Any]:
    """Return everything that can be stored on a model, by reference."""
    return [
        (name, dict(value) if isinstance(value, dict) else value)
        for module in model.modules()
        for name, value in vars(module).items()
    ]


def failing(model: Any) -> None:
    with suppress(RuntimeError), kept_for_next_try(model):
        model.store()
        raise RuntimeError("no graph")


def test_between_two_tries_only_new_tensors_go() -> None:
    model = Storing()
    table, before = model.table, held(model)
    with kept_through():
        failing(model)
        assert model.table is table
        assert not hasattr(model, "seen")
        assert model.length == 3
        assert len(model.layer._forward_hooks) == 1
    assert held(model) == before


def test_a_single_try_leaves_nothing() -> None:
    model = Storing()
    before = held(model)
    failing(model)
    assert held(model) == before


def test_a_capture_that_succeeds_leaves_nothing_for_what_follows() -> None:
    model = Storing()
    before = held(model)
    with kept_through():
        with kept_for_next_try(model):
            model.store()
        assert held(model) == before


class Table:
    """A plain object that a module has, which keeps what was asked for."""

    def rows(self) -> Any:
        if not hasattr(self, "kept"):
            self.kept = torch.arange(3)
        return self.kept


class Looking(nn.Module):  # type: ignore[misc,unused-ignore]
    """Looks up numbers in a table that is made when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()

    def forward(self, x: Any) -> Any:
        return x + self.table.rows()


def test_what_a_module_holds_keeps_no_tensor_of_a_capture() -> None:
    model = Looking()
    with apply_patches():
        torch.export.export(model, (torch.ones(2, 3),), strict=False)
    assert not vars(model.table)


class Logging(nn.Module):  # type: ignore[misc,unused-ignore]
    """Puts what it computes into a list, a queue and tables inside of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.calls: list[Any] = []
        self.last: deque[Any] = deque([torch.ones(1)], maxlen=1)
        self.named: dict[str, Any] = {"sums": [], "rows": {}}
        self.pair: tuple[Any, Any] = ([], 1)

    def forward(self, x: Any) -> Any:
        y = self.layer(x)
        self.calls.append(y)
        self.last.append(y)
        self.named["sums"].append(y.sum())
        self.named["rows"]["first"] = y[0]
        self.pair[0].append(y)
        return y


def test_lists_and_tables_inside_of_tables_keep_no_tensor_of_a_capture() -> None:
    model = Logging()
    calls, last, sums, kept = model.calls, model.last, model.named["sums"], model.last[0]
    with apply_patches():
        torch.export.export(model, (torch.ones(2, 2),), strict=False)
    assert (model.calls, model.last, model.named) == ([], deque([kept]), {"sums": [], "rows": {}})
    assert model.pair == ([], 1)
    assert model.calls is calls and model.last is last and model.named["sums"] is sums


def test_a_list_of_a_failed_try_loses_its_tensors_and_keeps_the_rest() -> None:
    model = Logging()
    with kept_through():
        with suppress(RuntimeError), kept_for_next_try(model):
            model.calls.append(torch.ones(1))
            model.named["mark"] = "set"
            raise RuntimeError("no graph")
        assert (model.calls, model.named.get("mark")) == ([], "set")
    assert "mark" not in model.named
