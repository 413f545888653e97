"""A mask that is learned: attention has the same layout when a graph is recorded and when it is decomposed."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="attention is torch's")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import apply_patches


class Biased(torch.nn.Module):  # type: ignore[name-defined,misc]  # torch is imported if it is there.
    """Attention with a bias for every pair of positions, whose heads are joined as transformers joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(16, 16, generator=torch.Generator().manual_seed(1)))

    def forward(self, x: Any) -> Any:
        heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
        mask = self.bias[: x.shape[1], : x.shape[1]][None, None]
        output = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, mask)
        return output.transpose(1, 2).contiguous().reshape(*x.shape[:2], -1)


def exported() -> Any:
    shapes = {"x": {0: "batch", 1: "sequence"}}
    return torch.onnx.export(Biased(), (), kwargs={"x": torch.ones(2, 5, 16)}, dynamic_shapes=shapes, dynamo=True)


def test_it_is_decomposed() -> None:
    # What is not traced once more has one layout.
    exclude = ["torch-sdpa-masked-rows", "torch-onnx-repeated-trace"]
    with apply_patches(exclude=exclude), pytest.raises(Exception, match="Cannot view a tensor"):
        exported()
    with apply_patches():
        program = exported()
    x = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(program(x)[0], Biased()(x), atol=1e-5)
