"""A sample with a dynamic axis of size 1 is enlarged, and nothing else is."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the patch is one of torch")

from torch.export import Dim

from exportcompat import apply_patches
from exportcompat.patches.torch_export.size_one import patch_torch_export

DYNAMIC = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}


def forward(self: Any, left: Any, right: Any = None) -> Any:
    return left + 1 if right is None else left + right


Add: Any = type("Add", (torch.nn.Module,), {"forward": forward})


def shapes(args: Any, kwargs: Any, dynamic_shapes: Any) -> list[tuple[int, ...]]:
    """Return the shapes that reach `torch.export.export`."""
    seen: list[tuple[int, ...]] = []

    def export(mod: Any, args: Any, kwargs: Any = None, *, dynamic_shapes: Any = None) -> None:
        seen.extend(tuple(item.shape) for item in (*args, *(kwargs or {}).values()))

    patch_torch_export(export)(Add(), args, kwargs, dynamic_shapes=dynamic_shapes)
    return seen


def test_all_dynamic_axes_grow_by_the_same_factor() -> None:
    args = (torch.zeros(1, 4, 5), torch.zeros(1, 0, 5))
    assert shapes(args, None, (DYNAMIC, DYNAMIC)) == [(3, 12, 5), (3, 0, 5)]


def test_keyword_arguments_in_another_order() -> None:
    kwargs = {"right": torch.zeros(2, 6), "left": torch.zeros(1, 6)}
    axes = {"left": {0: Dim.DYNAMIC}, "right": None}
    assert shapes((), kwargs, axes) == [(2, 6), (3, 6)]


@pytest.mark.parametrize(
    "axes",
    [
        {0: Dim.AUTO, 1: Dim.DYNAMIC},
        {0: Dim("batch", max=2), 1: Dim.DYNAMIC},
        {0: Dim.DYNAMIC, 1: 2 * Dim("half")},
        {0: None, 1: Dim.DYNAMIC},
        {0: Dim.STATIC, 1: Dim.DYNAMIC},
        (None, Dim.DYNAMIC),
        None,
    ],
    ids=["auto", "bounded", "derived", "constant", "static", "tuple", "none"],
)
def test_left_alone(axes: Any) -> None:
    assert shapes((torch.zeros(1, 4),), None, (axes,)) == [(1, 4)]


def test_sizes_above_one_are_left_alone() -> None:
    assert shapes((torch.zeros(2, 4),), None, (DYNAMIC,)) == [(2, 4)]


def test_shapes_that_do_not_fit_are_left_to_torch() -> None:
    with apply_patches(), pytest.raises(Exception, match="dynamic_shapes"):
        torch.export.export(Add(), (torch.zeros(1, 4),), dynamic_shapes={"other": DYNAMIC}, strict=False)


def test_a_sample_of_batch_one_exports_and_runs_at_another_batch() -> None:
    """Torch alone refuses: it takes the 1 for a constant."""
    args = (torch.zeros(1, 4),)
    with pytest.raises(Exception, match="(?i)speciali"):
        torch.export.export(Add(), args, dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    with apply_patches():
        program = torch.export.export(Add(), args, dynamic_shapes=({0: Dim.DYNAMIC},), strict=False)
    assert program.module()(torch.zeros(5, 4)).shape == (5, 4)
