"""A model is as it was after all tries of the exporter, and between them has no tensors of the last one."""

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
