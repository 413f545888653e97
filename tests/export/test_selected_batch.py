"""Attention with a mask over a selection, whose size is data: it is right for any number that was selected."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat._verification._onnx_file import OnnxFile
from exportcompat.patches.torch_onnx.sdpa_masked_rows import patch_attention_of_any_batch, patch_attention_of_no_rows

attention = torch.nn.functional.scaled_dot_product_attention


class Selected(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Attends within those sequences that are to be kept."""

    def __init__(self, scale: float | None) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, tokens: Any, keep: Any, mask: Any) -> Any:
        index = keep.nonzero()[:, 0]
        heads = tokens[index].unflatten(2, (4, -1)).transpose(1, 2)
        call = torch.nn.functional.scaled_dot_product_attention
        return call(heads, heads, 2 * heads, mask[index], **({} if self.scale is None else {"scale": self.scale}))


def inputs(keep: list[bool], kind: str) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(len(keep))
    mask = torch.rand(len(keep), 1, 5, 5, generator=generator) > 0.4
    mask[:, :, 2] = kind == "floats"
    given = mask if kind == "booleans" else torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    return torch.randn(len(keep), 5, 32, generator=generator), torch.tensor(keep), given


@pytest.mark.parametrize("kind", ["booleans", "floats"])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_any_number_of_sequences_is_right(
    kind: str, scale: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = Selected(scale), torch.export.Dim("batch", min=2, max=64)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", patch_attention_of_any_batch(attention))
    program = torch.onnx.export(
        model, inputs([True, False, True], kind), dynamic_shapes=({0: batch},) * 3, dynamo=True, verbose=False
    )
    monkeypatch.undo()
    program.save(str(tmp_path / "model.onnx"))
    file = OnnxFile(tmp_path / "model.onnx")
    for keep in ([True] * 4, [False, True], [False, False, False]):
        given = inputs(keep, kind)
        (found,) = file.run(dict(zip(("tokens", "keep", "mask"), given, strict=True))).values()
        torch.testing.assert_close(found, model(*given), atol=1e-5, rtol=1e-5)


class Shared(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Has one row of queries for all rows of the keys."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = torch.nn.Parameter(torch.randn(1, 4, 3, 8, generator=torch.Generator().manual_seed(0)))

    def forward(self, keys: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(self.queries, keys, 2 * keys)


def test_rows_that_share_a_query_have_their_own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = Shared(), tmp_path / "model.onnx"
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", patch_attention_of_no_rows(attention))
    rows = {0: torch.export.Dim("batch", min=2, max=64)}
    sizes: dict[str, Any] = {"dynamic_shapes": (rows,), "opset_version": 23, "dynamo": True, "verbose": False}
    torch.onnx.export(model, (torch.randn(3, 4, 5, 8),), **sizes).save(str(path))
    monkeypatch.undo()
    for count in (1, 2, 7):
        keys = torch.randn(count, 4, 5, 8, generator=torch.Generator().manual_seed(count))
        (found,) = OnnxFile(path).run({"keys": keys}).values()
        torch.testing.assert_close(found, model(keys), atol=1e-5, rtol=1e-5)
