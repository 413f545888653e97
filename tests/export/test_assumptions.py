"""What a model asks of a dynamic size is mended or said, and what makes no difference is not said."""

import json
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
onnx = pytest.importorskip("onnx", reason="the file is read")
onnxruntime = pytest.importorskip("onnxruntime", reason="the file is run")

from torch import nn

from exportcompat import AssumptionError, AssumptionWarning, PatchReport, apply_patches, export, plan
from exportcompat._verification._discrepancy import measure
from exportcompat.matrix.cases import find_case
from exportcompat.registry import ExportCompatError


def applies(spec_id: str) -> bool:
    """Say whether a spec is for what is installed."""
    return any(item.spec.id == spec_id and item.applies for item in plan())


DYNAMIC = torch.export.Dim.DYNAMIC
AXES = ({0: "batch", 1: "length"},)


class Asking(nn.Module):  # type: ignore[misc,unused-ignore]
    """Runs a function of itself and a `(batch, length)` tensor."""

    limit = 48

    def __init__(self, body: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Any) -> Any:
        return self.body(self, x)


def beyond(self: Any, x: Any) -> Any:
    if x.shape[1] > self.limit:
        x = x * 2
    return x + 1


def chosen(self: Any, x: Any) -> Any:
    return x * (2.0 if x.shape[1] > 20 else 3.0)


def squared(self: Any, x: Any) -> Any:
    return x[:, : int(math.sqrt(x.shape[1]))] * math.pi


def looped(self: Any, x: Any) -> Any:
    total = x[:, 0] * 0
    for index in range(x.shape[1] // 2):
        total = total + x[:, index] * index
    return total


def odd(self: Any, x: Any) -> Any:
    if x.shape[1] % 2:
        x = nn.functional.pad(x, (0, 1))
    return x.sum(1)


def wide(self: Any, x: Any) -> Any:
    if x.shape[0] >= x.shape[1]:
        x = x * 2
    return x


def masked(self: Any, x: Any) -> Any:
    other = None
    if x.shape[1] > 30 and other is not None:
        x = x * 3
    if x.shape[1] > 30:
        x = x * 2
    return x + 1


def shared_out(self: Any, x: Any) -> Any:
    return torch.tensor_split(x, 4, dim=1)[0]


def strided(self: Any, x: Any) -> Any:
    count = int(x.shape[1] // 2)
    return x[:, :count] + torch.arange(count)


def counted(self: Any, x: Any) -> Any:
    return x.T.reshape(len(x.T), -1) * torch.arange(len(x.T))[:, None] + len(x)


def refusing(self: Any, x: Any) -> Any:
    if x.shape[1] > 1000:
        raise ValueError("too long")
    assert x.shape[1] < 2000
    return x + 1


def settled(self: Any, x: Any) -> Any:
    other = None
    is_causal = x.shape[1] > 3 and other is None and self.training
    if x.shape[1] > 3 and other is not None:
        x = x * 2
    return x * (2 if is_causal else 3)


def plain(self: Any, x: Any) -> Any:
    return x.reshape(x.shape[0], -1, 1).softmax(1)


SAID: Mapping[str, tuple[Callable[[Any, Any], Any], list[str]]] = {
    "a threshold": (beyond, ["length <= 48"]),
    "a conditional expression": (chosen, ["length <= 20"]),
    "a loop": (looped, ["(length // 2) == 3"]),
    "a remainder": (odd, ["(length % 2) == 0"]),
    "two axes of one input": (wide, ["batch < length"]),
    "a question that was asked before where it made no difference": (masked, ["length <= 30"]),
    "an operator that is taken apart by the size": (shared_out, ["(length % 4) > 0"]),
    "errors": (refusing, []),
    "an operand that another one has decided": (settled, []),
    "nothing": (plain, []),
}


def write(body: Callable[[Any, Any], Any], path: Path, **options: Any) -> PatchReport:
    with apply_patches(**options) as report:
        torch.onnx.export(
            Asking(body).eval(), (torch.randn(4, 6),), str(path), dynamic_shapes=AXES, dynamo=True, verbose=False
        )
    return report


def run(path: Path, *feeds: Any) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]
    return torch.from_numpy(
        session.run(None, {name: value.numpy() for name, value in zip(names, feeds, strict=True)})[0]
    )


@pytest.mark.parametrize("name", SAID)
def test_what_changes_the_graph_is_said_and_nothing_else(name: str, tmp_path: Path) -> None:
    body, conditions = SAID[name]
    report = write(body, tmp_path / "model.onnx", on_assumption="ignore")
    found = [item for item in report.assumptions if item.kind != "shortcut"]
    assert [item.condition for item in found][: len(conditions)] == conditions
    assert bool(found) == bool(conditions)
    assert all(Path(item.file).name == Path(__file__).name for item in found)


def test_the_line_is_that_of_the_model(tmp_path: Path) -> None:
    with pytest.warns(AssumptionWarning, match="only where length <= 48") as caught:
        report = write(beyond, tmp_path / "model.onnx")
    (item,) = report.assumptions
    code = beyond.__code__
    assert (item.file, item.line, item.function) == (code.co_filename, code.co_firstlineno + 1, "beyond")
    assert item.source == "if x.shape[1] > self.limit:"
    assert [warning.lineno for warning in caught if warning.category is AssumptionWarning] == [item.line]


def test_an_export_stops_where_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AssumptionError, match="length <= 48"):
        write(beyond, tmp_path / "model.onnx", on_assumption="error")


def test_bounds_of_the_caller_are_no_assumptions() -> None:
    limit = torch.export.Dim("length", min=2, max=40)
    with apply_patches(on_assumption="error") as report:
        torch.export.export(Asking(beyond), (torch.randn(4, 6),), dynamic_shapes=({1: limit},), strict=False)
    assert report.assumptions == []


def test_a_capture_without_onnx_says_it_too() -> None:
    with pytest.warns(AssumptionWarning, match="x_1 <= 48"), apply_patches():
        torch.export.export(Asking(beyond), (torch.randn(4, 6),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},))


def test_a_multiple_of_one_is_no_more_of_a_choice_than_one() -> None:
    import sympy

    from exportcompat.patches.toolkit.decisions import _is_choice

    past, length = sympy.symbols("past length", integer=True)
    assert not any(map(_is_choice, (32 * length > 32, 4 * length - 4 * past > 4, length > 1)))
    assert _is_choice(16 * length > 32) and _is_choice(length > 2) and _is_choice(length - past > 4)


def test_torch_is_afterwards_as_it_was(tmp_path: Path) -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    places = [(torch.SymBool, "__bool__"), (torch.SymInt, "__int__"), (ShapeEnv, "_log_guard")]
    before = [vars(owner)[name] for owner, name in places]
    write(strided, tmp_path / "model.onnx")
    assert [vars(owner)[name] for owner, name in places] == before
    assert "int" not in globals()


@pytest.mark.parametrize("body", [strided, counted, squared], ids=["int", "len", "sqrt"])
def test_a_size_that_is_made_a_number_stays_a_size(body: Callable[[Any, Any], Any], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    report = write(body, path, on_assumption="error")
    assert report.assumptions == []
    for shape in ((4, 6), (3, 9), (2, 30)):
        x = torch.randn(shape)
        assert torch.equal(run(path, x), body(None, x))
    assert not {"int", "len"} & globals().keys()
    assert isinstance(globals()["math"], type(json))


class Repeating(nn.Module):  # type: ignore[misc,unused-ignore]
    """Repeats the items of an axis as often as another input has rows."""

    def __init__(self, axis: int | None) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Any, y: Any) -> Any:
        return x.repeat_interleave(y.shape[0], dim=self.axis) * 2


@pytest.mark.parametrize("axis", [0, 1, 2, -1, None])
def test_items_are_repeated_by_a_size_along_their_axis(axis: int | None, tmp_path: Path) -> None:
    model, path = Repeating(axis).eval(), tmp_path / "model.onnx"
    axes = {"x": {0: "rows", 1: "columns"}, "y": {0: "times"}}
    sample = (torch.randn(3, 4, 5), torch.randn(2, 2))
    with apply_patches():
        torch.onnx.export(model, sample, str(path), dynamic_shapes=axes, dynamo=True, verbose=False)
    for rows, columns, times in ((3, 4, 2), (2, 3, 2), (3, 3, 3), (1, 4, 5), (2, 2, 1)):
        x, y = torch.randn(rows, columns, 5), torch.randn(times, 2)
        assert torch.equal(run(path, x, y), model(x, y))


@pytest.mark.filterwarnings("ignore::exportcompat.AssumptionWarning")
def test_a_file_says_where_it_is_right_and_the_comparison_goes_there(tmp_path: Path) -> None:
    calls = [{"x": torch.randn(4, 6)}, {"x": torch.randn(3, 9)}]
    made = export(Asking(beyond).eval(), calls, tmp_path / "model.onnx")
    facts = {item.key: item.value for item in onnx.load(made.path).metadata_props}
    (item,) = json.loads(facts["exportcompat.assumptions"])
    assert item["condition"].endswith("<= 48")
    assert made.discrepancies is not None
    assert not made.discrepancies.success
    by_size = {row.inputs["x"][1]: row.success for row in made.discrepancies}
    assert by_size == {6: True, 9: True, 48: True, 49: False}
    assert f"outside of {item['condition']}" in str(made)


def test_an_export_by_one_call_stops_before_it_writes(tmp_path: Path) -> None:
    with pytest.raises(AssumptionError):
        export(
            Asking(beyond).eval(),
            [{"x": torch.randn(4, 6)}, {"x": torch.randn(3, 9)}],
            tmp_path / "model.onnx",
            on_assumption="error",
        )
    assert list(tmp_path.iterdir()) == []


def test_outputs_that_are_too_small_to_tell_are_no_success() -> None:
    small, large = torch.full((2, 3), 1e-26), torch.full((2, 3), 0.5)
    found = measure({"logits": small, "other": large}, {"logits": small, "other": large})
    assert found["success"] is False
    assert "too small to tell: no element of the expected output is larger than 1e-26" in found["error"]
    assert measure({"a": small, "b": large}, {"a": small, "b": large})["success"] is True
    assert measure({"a": small}, {"a": small}, tolerance=1e-28)["success"] is True
    assert (
        measure({"a": torch.zeros(2, dtype=torch.int64)}, {"a": torch.zeros(2, dtype=torch.int64)})["success"] is True
    )


transformers = pytest.importorskip("transformers", reason="models of transformers")


def test_padding_of_a_stride_is_that_of_the_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=4)
    model, path = transformers.MobileNetV2ForImageClassification(config).eval(), tmp_path / "model.onnx"
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 4:
                nn.init.kaiming_normal_(weight)
            elif weight.dim() == 2:
                weight.normal_(0, 0.2)
    axes = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    with apply_patches(on_assumption="error"):
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs={"pixel_values": torch.randn(2, 3, 48, 66)},
            dynamic_shapes=axes,
            dynamo=True,
            verbose=False,
        )
    for shape in ((1, 3, 48, 66), (3, 3, 49, 67), (2, 3, 64, 35)):
        images = torch.randn(shape)
        with torch.no_grad():
            wanted = model(images).logits
        assert wanted.abs().max() > 0.1
        assert (run(path, images) - wanted).abs().max() < 1e-3


def model_of(case: str) -> Any:
    return find_case(case).decoder().model


@pytest.mark.skipif(not applies("dynamic-window"), reason="Doge is mended from transformers 4.54 on")
def test_keys_beyond_a_dynamic_window_are_masked(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssumptionWarning)
        made = export(model_of("doge"), {"input_ids": torch.randint(3, 60, (1, 5))}, tmp_path)
    assert made.discrepancies is not None
    # The usual calls go to a length of 45.
    assert made.discrepancies.success, str(made.discrepancies)


@pytest.mark.skipif(not applies("dynamic-window"), reason="Doge is mended from transformers 4.54 on")
@pytest.mark.filterwarnings("ignore::exportcompat.AssumptionWarning")
def test_a_window_that_is_not_mended_is_found(tmp_path: Path) -> None:
    inputs = {"input_ids": torch.randint(3, 60, (1, 5))}
    model = model_of("doge")
    made = export(model, inputs, tmp_path, patches={"exclude": ["dynamic-window"]})
    (item,) = [item for item in made.report.assumptions if item.kind == "branch"]
    assert item.condition == f"past_sequence + sequence <= {model.config.keep_window_size}"
    assert made.discrepancies is not None
    assert not made.discrepancies.success
    assert all("outside of" in row.call for row in made.discrepancies if not row.success)


REFUSES_GIT = any(
    item.applies and str(item.spec.replacement).endswith("to_refuse")
    for item in plan()
    if item.spec.id == "git-mask-length"
)


@pytest.mark.skipif(not REFUSES_GIT, reason="GIT with a cache is refused to transformers 4.57")
def test_git_is_refused_with_a_cache_where_its_calls_have_masks_of_two_kinds(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="GIT hides padding in the first call"):
        export(model_of("git"), {"input_ids": torch.randint(3, 60, (1, 5))}, tmp_path)


@pytest.mark.skipif(
    not applies("git-mask-length") or REFUSES_GIT, reason="GIT with a cache is refused to transformers 4.57"
)
def test_a_mask_is_widened_where_the_cache_is_filled(tmp_path: Path) -> None:
    inputs = {"input_ids": torch.randint(3, 60, (1, 5)), "attention_mask": torch.ones(1, 5, dtype=torch.long)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", AssumptionWarning)
        made = export(model_of("git"), inputs, tmp_path)
    assert made.discrepancies is not None
    assert made.discrepancies.success, str(made.discrepancies)
