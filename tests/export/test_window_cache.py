"""`export(..., cache="window")`: layers that slide hold their window alone, and the file is right beyond it too."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
onnx = pytest.importorskip("onnx", reason="the file is read and changed")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import ExportCompatError, Exported, apply_patches, export
from exportcompat._exporter._window_layers import window_layers
from exportcompat._observer import observe
from exportcompat._observer._bounds import around_lengths
from exportcompat._verification import Discrepancy, OnnxDecoder, OnnxFile, windows_of
from exportcompat.matrix.cases._catalogue import find_case

pytestmark = pytest.mark.skipif(
    not find_case("gemma3").exists() or not hasattr(transformers.cache_utils, "DynamicSlidingWindowLayer"),
    reason="transformers has sliding layers that grow from 4.56 on",
)
WINDOW = 8
TOKENS = torch.randint(3, 30, (2, 6), generator=torch.Generator().manual_seed(2))
INPUTS = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}


def model(name: str = "gemma3") -> Any:
    return find_case(name).decoder().model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Exported, Any]:
    gemma = model()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        return export(gemma, INPUTS, tmp_path_factory.mktemp("window"), cache="window"), gemma


def test_the_file_is_right_beyond_the_window(made: tuple[Exported, Any]) -> None:
    found = made[0].discrepancies
    assert found is not None
    assert (found.success, len(found)) == (True, 191)
    assert max(row.past or 0 for row in found) > 3 * WINDOW
    assert not [item for item in made[0].report.assumptions if item.kind != "shortcut"]


def test_layers_that_slide_take_and_return_their_window_alone(made: tuple[Exported, Any]) -> None:
    file = OnnxFile(made[0].path)
    kinds = made[1].config.layer_types
    expected = {f"past_key_values.{at}.key": kind == "sliding_attention" for at, kind in enumerate(kinds)}
    assert set(expected.values()) == {True, False}
    for name, slides in expected.items():
        assert file.inputs[name][2] == (f"past_window_{WINDOW}" if slides else "past_sequence")
    decoder = OnnxDecoder(made[0].path)
    cache = decoder.empty_cache(1)
    for past, new in ((0, 5), (5, 1), (6, 20), (26, 1)):
        inputs = {
            "input_ids": torch.full((1, new), 5),
            "attention_mask": torch.ones(1, past + new, dtype=torch.int64),
            "position_ids": torch.arange(past, past + new)[None],
        }
        _, cache = decoder(inputs, cache)
        for name, slides in expected.items():
            assert cache[name].shape[2] == (min(past + new, WINDOW - 1) if slides else past + new)


def test_the_file_says_which_layers_hold_a_window(made: tuple[Exported, Any]) -> None:
    windows = windows_of(OnnxFile(made[0].path).metadata)
    slides = [at for at, kind in enumerate(made[1].config.layer_types) if kind == "sliding_attention"]
    assert windows == {f"past_key_values.{at}.{leaf}": WINDOW for at in slides for leaf in ("key", "value")}
    assert not (made[0].path.parent / "genai_config.json").exists()


def test_another_observer_compares_it_by_what_the_file_says(made: tuple[Exported, Any], tmp_path: Path) -> None:
    with apply_patches():
        observer = observe(made[1], {"input_ids": torch.arange(3, 16)[None]})
    assert observer.check_discrepancies(made[0].path).success
    lying = onnx.load(str(made[0].path))
    for entry in lying.metadata_props:
        if entry.key == "exportcompat.windows":
            entry.value = json.dumps(dict.fromkeys(json.loads(entry.value), WINDOW - 2))
    onnx.save(lying, str(tmp_path / "lying.onnx"))
    found = observer.check_discrepancies(tmp_path / "lying.onnx")
    assert [row for row in found if row.call.startswith("observed") and not row.success]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("llama", {"cache": "window"}, "no layer of the cache of LlamaForCausalLM slides"),
        ("gemma3", {"cache": "windows"}, "cache='windows' is not known; write 'full' or 'window'"),
        ("gemma3", {"cache": "window", "serve": "cpu"}, "leave out one of them"),
    ],
)
def test_what_cannot_be_done_is_said_before_the_export(
    name: str, options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportCompatError, match=says):
        export(model(name), INPUTS, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    config = transformers.T5Config(
        vocab_size=40, d_model=16, d_kv=4, d_ff=20, num_layers=1, num_heads=4, decoder_start_token_id=0
    )
    t5 = transformers.T5ForConditionalGeneration(config).eval()
    with pytest.raises(ExportCompatError, match="this is an encoder-decoder"):
        export(t5, INPUTS, tmp_path, cache="window")


def test_a_window_that_is_too_small_is_refused(tmp_path: Path) -> None:
    mistral = find_case("mistral_window").decoder().model
    mistral.config.sliding_window = 3
    with pytest.raises(ExportCompatError, match="a window of 3 tokens, and 4 is the smallest"):
        export(mistral, INPUTS, tmp_path, cache="window")


def test_the_model_is_as_it_was_after_an_error() -> None:
    gemma = model()
    scope = window_layers(gemma, {"past_key_values.0.key": WINDOW})
    scope.__enter__()
    assert gemma._forward_pre_hooks
    assert not scope.__exit__(ValueError, ValueError("mine"), None)
    assert not gemma._forward_pre_hooks
    assert not gemma._forward_hooks


def test_a_comparison_goes_to_both_sides_of_a_long_window() -> None:
    fast = Discrepancy(call="", past=0, new=40, torch_ms=1, onnx_ms=1)
    found, dear = around_lengths([8, 100], [fast])
    assert not dear
    assert {schedule.lengths for schedule in found} == {(99, 1, 1, 1), (101, 1)}
    slow = Discrepancy(call="", past=0, new=40, torch_ms=30_000, onnx_ms=30_000)
    assert around_lengths([100], [slow])[0] == []
    assert "not tried at length 101" in around_lengths([100], [slow])[1][0]
