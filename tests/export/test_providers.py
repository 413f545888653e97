"""Files are run by a provider that is there, on tensors of any type; models are exported where their weights are."""

import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
onnx = pytest.importorskip("onnx", reason="files are made by hand")
runtime = pytest.importorskip("onnxruntime", reason="files are run")

from exportcompat import ExportCompatError, InputObserver, export
from exportcompat._serving import _timing
from exportcompat._verification import CPU, OnnxFile, check_provider
from exportcompat._verification._providers import DEVICES

CUDA = "CUDAExecutionProvider"
has_cuda = CUDA in runtime.get_available_providers()


def joined(path: Path, kind: str) -> Path:
    """Write a file that joins two tensors, of which one may have no row."""
    text = f"""<ir_version: 9, opset_import: ["": 20]>
        agraph ({kind}[a, 2] x, {kind}[b, 2] y) => ({kind}[c, 2] z) {{ z = Concat <axis: int = 0> (x, y) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


@pytest.mark.parametrize(
    ("kind", "dtype"), [("bfloat16", torch.bfloat16), ("float", torch.float32), ("bool", torch.bool)]
)
def test_a_file_takes_and_gives_any_type(tmp_path: Path, kind: str, dtype: Any) -> None:
    file = OnnxFile(joined(tmp_path / "model.onnx", kind))
    assert not file.is_widened and file.provider == CPU
    x, y = torch.randn(3, 2).to(dtype), torch.zeros(0, 2, dtype=dtype)
    found = file.run({"x": x, "y": y})["z"]
    assert found.dtype == dtype and torch.equal(found, x)
    # In another layout, as a part of a larger tensor has.
    assert torch.equal(file.run({"x": x[:, [1, 0]].T[:2].T, "y": x.flip(1)})["z"], torch.cat([x.flip(1), x.flip(1)]))
    file.bound({"x": x, "y": y})()


def test_a_provider_that_is_not_there_is_refused_first(tmp_path: Path) -> None:
    path = joined(tmp_path / "model.onnx", "float")
    with pytest.raises(ExportCompatError, match="'cuda' is not known; write one of CPUExecutionProvider, CUDAExec"):
        OnnxFile(path, provider="cuda")
    if not has_cuda:
        with pytest.raises(ExportCompatError, match="has no CUDAExecutionProvider here, only .*onnxruntime-gpu"):
            check_provider(CUDA)
    with pytest.raises(ExportCompatError, match="nothing was observed|no call"):
        InputObserver().check_discrepancies(path, provider=CUDA)


def test_a_provider_that_cannot_be_started_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime takes the CPU in place of a provider whose libraries are missing, and goes on."""
    path = joined(tmp_path / "model.onnx", "float")
    monkeypatch.setitem(DEVICES, "Unstarted", "cpu")
    monkeypatch.setattr(runtime, "get_available_providers", lambda: ["Unstarted", CPU])
    made = runtime.InferenceSession
    monkeypatch.setattr(runtime, "InferenceSession", lambda *args, providers: made(*args, providers=[CPU]))
    with pytest.raises(ExportCompatError, match="has Unstarted, but could not start it for .*CUDA or cuDNN"):
        OnnxFile(path, provider="Unstarted")


def test_calls_of_another_provider_are_timed_on_the_wall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OnnxFile(joined(tmp_path / "model.onnx", "float"))
    feeds = {"x": torch.zeros(3, 2), "y": torch.zeros(1, 2)}
    usual: Any = _timing._call(file, feeds)
    assert usual.args[1] is time.thread_time
    monkeypatch.setitem(DEVICES, "Other", "cpu")
    file.provider = "Other"
    call: Any = _timing._call(file, feeds)
    assert call.args[1] is time.perf_counter and call() > 0


Module: Any = torch.nn.Module


class Hooked(Module):  # type: ignore[misc,unused-ignore]
    """A layer as accelerate leaves it where its weights are loaded for each call."""

    def __init__(self, device: str, hook: Any = None) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2, device=device)
        if hook is not None:
            self.layer._hf_hook = hook

    def forward(self, x: Any) -> Any:
        return self.layer(x)


def test_weights_that_are_not_in_one_place_are_refused_first(tmp_path: Path) -> None:
    given = {"x": torch.zeros(3, 2)}
    with pytest.raises(ExportCompatError, match="Hooked has weights on 'meta', which have no values"):
        export(Hooked("meta"), given, tmp_path / "model.onnx")
    with pytest.raises(ExportCompatError, match="accelerate has offloaded weights of Hooked.*device_map='cpu'"):
        export(Hooked("meta", object()), given, tmp_path / "model.onnx")
    spread = Hooked("cpu")
    with torch._subclasses.fake_tensor.FakeTensorMode():
        # A GPU that is not there: nothing is called.
        spread.other = torch.nn.Parameter(torch.empty(2, device="cuda"))
    with pytest.raises(ExportCompatError, match="Hooked is spread over cpu, cuda:0.*device_map='cpu'"):
        export(spread, given, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_hooks_that_move_nothing_are_no_reason_to_refuse(tmp_path: Path) -> None:
    made = export(
        Hooked("cpu", object()), [{"x": torch.randn(3, 2)}, {"x": torch.randn(5, 2)}], tmp_path / "model.onnx"
    )
    assert made.discrepancies is not None and made.discrepancies.success
