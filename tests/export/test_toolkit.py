"""What patches share: who is called while a graph is recorded, and which torch functions are answered otherwise."""

from typing import Any

import torch

from exportcompat.patches.toolkit.function_modes import Override
from exportcompat.patches.toolkit.wrapping import when_traced


class Subject(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Calls a function that is patched."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x=x)


def test_the_original_is_called_unless_a_graph_is_recorded() -> None:
    def original(x: Any) -> Any:
        """Add."""
        return x + 1

    function = when_traced(original, lambda x: x + 2)
    x = torch.zeros(3)
    assert function(x).tolist() == [1, 1, 1] and function.__doc__ == original.__doc__
    program = torch.export.export(Subject(function), (x,))
    assert program.module()(x).tolist() == [2, 2, 2]


def test_functions_with_a_handler_are_answered_by_it() -> None:
    x = torch.arange(4)
    with Override({torch.split: lambda split, tensor, *_, **__: [split(tensor, 1)[0]]}):
        assert [part.tolist() for part in torch.split(x, 2)] == [[0]]
        assert torch.cat([x, x]).shape == (8,)
    assert len(torch.split(x, 2)) == 2
