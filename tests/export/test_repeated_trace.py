"""The exporter traces a program once more where something has to be taken apart, and only there."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim, exported_program

from exportcompat import apply_patches, plan

onnxruntime = pytest.importorskip("onnxruntime")
_SPEC = "torch-onnx-repeated-trace"


class Renamed(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Has the nodes that get other names: casts, views, copies, a dropout, a logical and."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return views of `x`, `(batch, sequence, 6)`, where `mask`, `(batch, sequence)`, is true."""
        batch, sequence, _ = x.shape
        heads = x.to(torch.float64).to(torch.float32).reshape(batch, sequence, 2, 3).transpose(1, 2).contiguous()
        kept = (mask & (x.sum(-1) > 0)).to(x.device)
        same = self.dropout(heads).reshape(batch, 2, sequence, 3)
        return (
            same.flatten(1, 2) * 2,
            kept,
            heads.transpose(1, 2).reshape(batch, sequence, 6).to(x.dtype),
            x.flatten(-2),
        )


class Changed(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Changes tensors in place: parts, views that were made before, results of which one is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return `x`, `(batch, sequence, 6)`, changed where `mask` is true."""
        whole = x.clone()
        tail = whole[..., 2:]
        whole[..., 0] = 7
        tail.add_(1).masked_fill_(~mask.unsqueeze(-1), 0)
        left, right = (x * 2).chunk(2, -1)
        left.mul_(right)
        more = x + 1
        same = self.dropout(more)
        same /= 3
        grown = torch.zeros_like(x)
        for at in range(3):
            grown[..., at] = whole[..., at] * (at + 1)
        return whole, tail * 2, left, right.reshape(-1), more, grown, (x + 0).flatten().sub_(1)


class Choosing(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Has a branch that depends on data, and no gradients in a part."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return a sum for `x`, `(batch, sequence, 6)`, which depends on whether all of `mask` is true."""

        def scaled(value: torch.Tensor) -> torch.Tensor:
            made = value.to(torch.float64).reshape(value.shape).to(torch.float32)
            return made * 3

        def kept(value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        with torch.no_grad():
            x = (x * 2).to(torch.float64).to(torch.float32).contiguous()
        return torch.cond(mask.all(), scaled, kept, (x,)).to(torch.float64) + 1


class Quiet(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Makes without gradients what it changes with them, and returns what a dropout of evaluation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return tensors made of `x`, `(batch, sequence, 6)`, that share elements with what is changed."""
        first, second, third = x + 1, x + 2, x + 3
        with torch.no_grad():
            flat = first.reshape(-1)
            rows, same = second.reshape(-1, 6), second.to(x.dtype)
        flat.mul_(2)
        rows[:, 0] = 0
        dropped = self.dropout(third)
        third[..., 1:].add_(5)
        dropped[..., 0] = 7
        return first * 1, flat + 0, second.sum(-1), same * 1, dropped, third * 2


class Ungraded(Quiet):
    """Has no gradients at all."""

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """See `Quiet`."""
        return super().forward(x, mask)


class Turned(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Puts two axes of complex numbers together, by sizes that are theirs."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the parts of `x`, `(batch, sequence, 6)`, as angles."""
        return torch.view_as_real(torch.polar(mask.unsqueeze(-1).expand(x.shape).to(x.dtype), x).flatten(-2))


class Writing(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Changes what it is given."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return twice `x`, `(batch, sequence, 6)`, after it has become another one."""
        x.copy_(torch.where(mask.unsqueeze(-1), x, 0))
        return x * 2


KINDS = [Renamed, Changed, Choosing, Quiet, Ungraded, Writing, Turned]


def _inputs(batch: int, sequence: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch + sequence)
    x = torch.randn(batch, sequence, 6, generator=generator)
    return x, torch.rand(batch, sequence, generator=generator) > 0.5


def _export(model: torch.nn.Module, path: Path, exclude: tuple[str, ...] = ()) -> Any:
    axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    with apply_patches(exclude=exclude) as report:
        torch.onnx.export(
            model.eval(), _inputs(2, 5), str(path), dynamic_shapes=(axes, axes), dynamo=True, verbose=False
        )
    return report


def _is_traced_again(monkeypatch: pytest.MonkeyPatch, export: Callable[[], Any]) -> bool:
    calls, original = [], exported_program._decompose_exported_program

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(exported_program, "_decompose_exported_program", counted)
        export()
    return bool(calls)


@pytest.mark.parametrize(
    ("kind", "is_traced"),
    [(Renamed, False), (Changed, False), (Choosing, False), (Quiet, False), (Ungraded, False), (Writing, True)],
)
def test_traced_again_where_needed(
    kind: type[torch.nn.Module], is_traced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if _SPEC not in _export(kind(), tmp_path / "model.onnx").applied:
        pytest.skip("this torch traces each program once more: the spec is for torch from 2.13 on")
    path = tmp_path / "again.onnx"
    assert _is_traced_again(monkeypatch, lambda: _export(kind(), path)) == is_traced
    assert _is_traced_again(monkeypatch, lambda: _export(kind(), path, (_SPEC,)))


@pytest.mark.parametrize("kind", KINDS)
def test_like_eager(kind: type[torch.nn.Module], tmp_path: Path) -> None:
    model, path = kind().eval(), tmp_path / "model.onnx"
    _export(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for shape in ((2, 5), (1, 1), (3, 7), (0, 4), (2, 0)):
        inputs = _inputs(*shape)
        feeds = {item.name: tensor.numpy() for item, tensor in zip(session.get_inputs(), inputs, strict=True)}
        found = session.run(None, feeds)
        wanted = model(*inputs)
        for left, right in zip(found, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
            torch.testing.assert_close(torch.from_numpy(left), right)


def test_decomposed_by_another_table() -> None:
    program = torch.export.export(Renamed().eval(), _inputs(2, 5), strict=False)
    plain = str(program.run_decompositions({}).graph)
    with apply_patches():
        assert str(program.run_decompositions({}).graph) == plain


class Input(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Has an argument that is called like a function of Python."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (models have such names)
        """Return `input` in another shape."""
        return input.reshape(-1).to(torch.float64)


def test_a_name_of_python_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def export() -> None:
        with apply_patches():
            torch.onnx.export(Input(), (torch.ones(2, 3),), str(tmp_path / "model.onnx"), dynamo=True, verbose=False)

    is_ours = any(item.spec.id == _SPEC and item.applies for item in plan())
    assert _is_traced_again(monkeypatch, export) != is_ours
    (name,) = [item.name for item in onnxruntime.InferenceSession(str(tmp_path / "model.onnx")).get_inputs()]
    assert name == "input"


def test_program_stays_as_it_is(tmp_path: Path) -> None:
    program = torch.export.export(Renamed().eval(), _inputs(2, 5), strict=False)
    before = str(program.graph)
    with apply_patches():
        torch.onnx.export(program, (), str(tmp_path / "model.onnx"), dynamo=True, verbose=False)
    assert str(program.graph) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_taken_apart_is_known(
    kind: type[torch.nn.Module], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="exportcompat.patches.torch_onnx._rewritten_program"):
        _export(kind(), tmp_path / "model.onnx")
    # An error that is none of ours is noted with its traceback.
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


def test_results_that_tracing_puts_in_another_order_are_in_that_one() -> None:
    modeling_outputs = pytest.importorskip("transformers.modeling_outputs", reason="its outputs are returned")

    class Adding(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def forward(self, x: torch.Tensor) -> Any:
            made = modeling_outputs.MoeModelOutputWithPast(last_hidden_state=x, router_logits=(x > 0,))
            made["hidden_states"] = (x + 1,)
            return made

    def kinds() -> list[str]:
        program = torch.onnx.export(Adding(), (torch.randn(2, 3),), dynamo=True, verbose=False)
        return [str(output.dtype) for output in program.model.graph.outputs]

    plain = kinds()
    with apply_patches():
        assert kinds() == plain == ["FLOAT", "FLOAT", "BOOL"]
