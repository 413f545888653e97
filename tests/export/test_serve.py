"""A derived file is compared within its contract, and is not written where it is wrong or no faster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the case is a model of transformers")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import ExportCompatError, apply_patches, export
from exportcompat._exporter._opset import default_opset
from exportcompat._observer import InputObserver, observe
from exportcompat._serving import _serve, serve
from exportcompat._serving._targets import Derivation, Target
from exportcompat._verification import CPU, Contract, OnnxFile
from exportcompat.matrix.cases._catalogue import find_case

TOKENS = torch.randint(3, 99, (1, 7), generator=torch.Generator().manual_seed(1))
INPUTS = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, InputObserver]:
    path, model = tmp_path_factory.mktemp("plain") / "model.onnx", find_case("llama").decoder().model
    with apply_patches():
        observer = observe(model, INPUTS)
    export(model, observer, path, verify=False)
    return path, observer


def test_what_is_right_and_faster_is_written_with_its_contract(
    plain: tuple[Path, InputObserver], stopwatch: Callable[[float], None]
) -> None:
    stopwatch(0.5)
    path, observer = plain
    made = serve(path, observer, "cpu", weights="int4")
    assert made.path == path.with_name("model_cpu.onnx") and made.discrepancies is not None and made.loss is not None
    grouped = default_opset() == 23
    assert [item.kept for item in made.attempts] == [True, grouped, grouped]
    # Without the schedules of several sequences that go on with a chunk, and those with padding.
    assert made.discrepancies.success and 80 < len(made.discrepancies) <= 191
    assert made.contract == Contract(chunk_batch=1 if grouped else None, last_logits=True, padding=not grouped)
    facts = OnnxFile(made.path).metadata
    assert json.loads(facts["exportcompat.contract"])["last_logits"]
    loss = json.loads(facts["exportcompat.weights"])
    assert (loss["weights"], loss["block"], loss["tokens"]) == ("int4", 32, 192)
    assert 0 < loss["top1"] < 1 and loss["perplexity"] > 1 and loss["size"] < 0.6


@pytest.mark.parametrize(("ratio", "reason"), [(0.5, "it is wrong"), (1.0, "it is not faster")])
def test_what_is_wrong_or_no_faster_is_not_written(
    ratio: float,
    reason: str,
    plain: tuple[Path, InputObserver],
    stopwatch: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    path, observer = plain
    wrong = Derivation("broken", negated, Contract())
    stopwatch(ratio)
    monkeypatch.setattr(_serve, "find_target", lambda *_, **__: Target("cpu", CPU, (wrong,)))
    made = serve(path, observer, "cpu", output=tmp_path / "derived.onnx")
    assert made.path is None and reason in str(made) and not list(tmp_path.iterdir())


@pytest.mark.skipif(default_opset() != 23, reason="the operator stands for one of opset 23")
@pytest.mark.parametrize(("name", "windows"), [("llama", {None}), ("gemma3", {8, None})])
def test_masks_are_left_out_and_padding_is_refused(name: str, windows: set[int | None], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the file is run")
    onnx = pytest.importorskip("onnx", reason="the file is read")
    path, model = tmp_path / "model.onnx", find_case(name).decoder().model
    export(model, INPUTS, path, verify=False)
    made = serve(path, None, "cpu", unverified=True)
    assert made.path is not None and made.contract == Contract(chunk_batch=1, last_logits=True, padding=False)
    nodes = onnx.load(made.path).graph.node
    found = [node for node in nodes if node.op_type == "GroupQueryAttention"]
    given = [{item.name: item.i for item in node.attribute} for node in found]
    assert {item.get("local_window_size") for item in given} == windows
    assert not {"Attention", "Where", "LessOrEqual"} & {node.op_type for node in nodes}
    file = OnnxFile(made.path)
    padded = {"attention_mask": torch.tensor([[0, 1, 1, 1, 1, 1, 1]]), "position_ids": torch.arange(7)[None]}
    empty = {name: torch.zeros(1, size[1], 0, size[3]) for name, size in file.inputs.items() if len(size) == 4}
    with pytest.raises(runtime.capi.onnxruntime_pybind11_state.InvalidArgument, match="indices element out of data"):
        file.run({"input_ids": TOKENS, **padded, **empty})


def negated(model: Any) -> int:
    """Negate the product that makes the logits: a wrong derivation."""
    import onnx_ir as ir

    product = next(value for value in model.graph.outputs if value.name == "logits").producer()
    node = ir.node("Neg", [product.inputs[0]])
    model.graph.insert_before(product, node)
    product.replace_input_with(0, node.outputs[0])
    return 1


def test_weights_without_a_target_and_unknown_targets_are_refused_first(tmp_path: Path) -> None:
    options: Any
    for options, message in (({"weights": "int4"}, "name its runtime too"), ({"serve": "tpu"}, "is not known")):
        with pytest.raises(ExportCompatError, match=message):
            export(torch.nn.Linear(2, 2), {}, tmp_path, **options)
