"""A size of -1 is written before the translation, where the capture knows it."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from exportcompat.patches.torch_onnx.inferred_sizes import patch_type_promotion


class Heads(nn.Module):  # type: ignore[misc,unused-ignore]
    """Splits what each image has into heads, and joins all of it."""

    def forward(self, x: Any) -> tuple[Any, Any]:
        heads = x.view(x.shape[0], -1, 4, 8)
        return heads.transpose(1, 2) * 2, x.view(-1, 8)


def test_known_sizes_are_written() -> None:
    images = {0: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Heads(), (torch.randn(2, 5, 32),), dynamic_shapes=(images,))
    passed: list[Any] = []
    patch_type_promotion(passed.append)(program.graph_module)
    assert passed == [program.graph_module]
    views = [node for node in program.graph.nodes if node.target is torch.ops.aten.view.default]
    (split, joined) = (node.args[1] for node in views)
    assert split[1:] == [5, 4, 8]
    # The number of images is not known, so what depends on it has to be inferred.
    assert joined == [-1, 8]
    x = torch.randn(3, 5, 32)
    assert all(torch.equal(a, b) for a, b in zip(program.module()(x), Heads()(x), strict=True))
