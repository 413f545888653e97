"""The comparison with eager finds what it is there to find."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the comparison is between torch and ONNX Runtime")
pytest.importorskip("onnxruntime", reason="the comparison is between torch and ONNX Runtime")

from exportcompat import ExportCompatError
from exportcompat._observer._compared_call import first_line
from exportcompat._verification._discrepancy import TOLERANCE, Discrepancies, measure
from exportcompat._verification._schedules import Schedule, compare, decoder_schedules, same_tokens
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.cases._decoder import PlainDecoder, Sample
from exportcompat.matrix.checks._check import check, export

SHORT = [Schedule(2, (3, 1))]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "model.onnx"
    export(find_case("tiny_gpt").decoder(), Sample(), path)
    return path


class Changed(PlainDecoder):
    """A reference that is off in one logit of one call."""

    change = 0.0

    def __call__(self, inputs: Any, cache: Any) -> tuple[Any, Any]:
        logits, cache = super().__call__(inputs, cache)
        logits[-1, -1, 5] += self.change
        return logits, cache


def reference(change: float) -> Changed:
    decoder = Changed(find_case("tiny_gpt").decoder().model)
    decoder.change = change
    return decoder


def test_the_same_model_succeeds(file: Path) -> None:
    calls = compare(file, lambda: reference(0.0), SHORT)
    assert [(call.past, call.new, call.success) for call in calls] == [(0, 3, True), (3, 1, True)]


@pytest.mark.parametrize("change", [2 * TOLERANCE, float("nan"), float("inf")])
def test_one_logit_is_enough_to_fail(file: Path, change: float) -> None:
    assert not any(call.success for call in compare(file, lambda: reference(change), SHORT))


def test_another_token_fails_within_the_tolerance(file: Path) -> None:
    class Tied(PlainDecoder):
        def __call__(self, inputs: Any, cache: Any) -> tuple[Any, Any]:
            logits, cache = super().__call__(inputs, cache)
            top = logits[:, -1].topk(2).indices
            # The second of the two gets the value of the first and a little more.
            logits[:, -1] = logits[:, -1].scatter(1, top[:, 1:], logits[:, -1].max(-1, keepdim=True).values + 1e-4)
            return logits, cache

    calls = compare(file, lambda: Tied(find_case("tiny_gpt").decoder().model), SHORT)
    assert not any(call.same_tokens or call.success for call in calls)


def test_schedules_pass_every_past_and_both_batches() -> None:
    schedules = decoder_schedules()
    pasts = {sum(item.lengths[:step]) for item in schedules for step in range(len(item.lengths))}
    assert pasts.issuperset({0, *range(5, 37)}) and max(pasts) > 40
    assert {item.batch for item in schedules} == {1, 3}
    assert {item.padding > 0 for item in schedules} == {True, False}
    assert max(len(item.lengths) for item in schedules if item.greedy) == 33


def test_a_truncated_file_is_named(file: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.onnx"
    half.write_bytes(file.read_bytes()[:2000])
    with pytest.raises(ExportCompatError, match=r"half\.onnx is no ONNX model that ONNX Runtime can load"):
        compare(half, lambda: reference(0.0), SHORT)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match=r"none\.onnx: there is no such file"):
        compare(tmp_path / "none.onnx", lambda: reference(0.0), SHORT)


def test_other_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    torch.onnx.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),), str(path), dynamo=True, verbose=False)
    with pytest.raises(ExportCompatError, match=r"a decoder has 'input_ids' \(or 'inputs_embeds'\) and 'logits'"):
        compare(path, lambda: reference(0.0), SHORT)


def test_an_export_that_fails_is_shown_as_failing() -> None:
    outcome = check(find_case("llama"), Sample(), patched=False)
    assert (outcome.state, outcome.calls, outcome.difference) == ("fails", 0, None)
    assert outcome.problems[0].startswith("TorchExportError: ")


def test_state_that_stays_on_the_model_is_wrong() -> None:
    outcome = check(find_case("stateful_gpt"), Sample(), patched=False)
    assert outcome.state == "wrong"
    assert outcome.problems[0] == "the model keeps a FakeTensor in last_positions"


def test_the_telling_line_of_an_error() -> None:
    text = "Failed to export.\n- Do this.\n\n## Exception summary\n\n<class 'ValueError'>: no\n\nmore"
    assert first_line(RuntimeError(text)) == "RuntimeError: <class 'ValueError'>: no"


def test_a_table_of_nothing_is_no_success() -> None:
    table = Discrepancies([])
    assert not table.success and table.worst is None
    assert "FAILED: nothing was compared" in str(table)


@pytest.mark.parametrize(
    ("found", "success"),
    [
        ([1.0, float("inf")], True),
        ([1.0, 1.0], False),
        ([float("nan"), float("inf")], False),
        ([1.0 + 9e-4, float("inf")], True),
        ([1.0 + 2e-3, float("inf")], False),
    ],
    ids=["equal", "finite", "nan", "within", "beyond"],
)
def test_infinities_of_one_sign_are_equal_and_nan_is_far_off(found: list[float], success: bool) -> None:
    fields = measure({"x": torch.tensor(found)}, {"x": torch.tensor([1.0, float("inf")])})
    assert fields["success"] is success


def test_smaller_types_have_a_tolerance_that_grows_with_their_size() -> None:
    wanted = torch.tensor([100.0, 0.0], dtype=torch.float16)
    assert measure({"x": wanted + 0.9}, {"x": wanted})["success"]
    assert not measure({"x": wanted + 1.5}, {"x": wanted})["success"]
    assert not measure({"x": wanted + 0.9}, {"x": wanted}, 0.5)["success"]


def test_large_numbers_are_compared_relative_to_their_usual_size() -> None:
    depth = torch.linspace(1.0, 6000.0, 500)
    assert measure({"depth": depth + 0.02}, {"depth": depth})["success"]
    assert not measure({"depth": depth + 0.06}, {"depth": depth})["success"]
    # Neither what masks logits, however many, nor a few large ones excuse the others.
    logits = torch.cat([torch.linspace(-3.0, 3.0, 500), torch.full((900,), torch.finfo().min), torch.tensor([5e6])])
    assert not measure({"logits": logits + torch.tensor([2e-3] + [0.0] * 1400)}, {"logits": logits})["success"]


def test_of_two_logits_that_rounding_cannot_tell_apart_each_is_right() -> None:
    wanted = torch.tensor([[[3.0, 3.0 - 2e-5, 1.0]]])
    assert same_tokens(wanted + torch.tensor([0.0, 4e-5, 0.0]), wanted)
    assert not same_tokens(torch.tensor([[[3.0, 3.0 + 1e-4, 1.0]]]), torch.tensor([[[3.0, 3.0 - 1e-4, 1.0]]]))


def test_a_missing_output_and_another_shape_are_errors() -> None:
    wanted = {"x": torch.zeros(2, 3)}
    assert measure({}, wanted)["error"] == "output 'x' has the shape None, and (2, 3) in eager"
    assert "has the shape (3, 2), and (2, 3) in eager" in measure({"x": torch.zeros(3, 2)}, wanted)["error"]
