"""The decoder of an encoder-decoder in two files: what each takes and returns, and when they are written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the models are of transformers")
onnx = pytest.importorskip("onnx", reason="the files are read")
pytest.importorskip("onnxruntime", reason="the files are run")

from exportcompat import ExportCompatError, apply_patches, export
from exportcompat._observer import InputObserver, observe_encoder_decoder
from exportcompat._serving import _decoder_parts, serve
from exportcompat._serving._timing import LATER_CALLS, compare_times
from exportcompat._verification import FIRST, LATER, OnnxFile, open_file
from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder

MERGED = "decoder_model_merged.onnx"


@pytest.fixture(scope="module", params=["T5", "Whisper"])
def merged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, InputObserver]:
    """Return the file of a decoder, its weights beside it, and what has watched the decoder."""
    torch.manual_seed(0)
    model, generator = make_encoder_decoder(request.param), torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 60, (2, 7), generator=generator)
    inputs: Any = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if request.param == "Whisper":
        frames = 2 * model.config.max_source_positions, model.config.num_mel_bins
        inputs = [{"input_features": torch.randn(batch, *frames[::-1], generator=generator)} for batch in (1, 2)]
    folder = tmp_path_factory.mktemp(request.param)
    with apply_patches():
        observer = observe_encoder_decoder(model, inputs)["decoder"][1]
    export(model, inputs, folder, verify=False, external_data=True)
    return folder / MERGED, observer


def test_two_files_are_right_and_share_their_weights(
    merged: tuple[Path, InputObserver], stopwatch: Callable[[float], None]
) -> None:
    stopwatch(0.5)
    path, observer = merged
    made = serve(path, observer, "cpu")
    assert made.path == path.with_name(LATER) and made.discrepancies is not None, str(made)
    assert made.discrepancies.success and len(made.discrepancies) > 80
    first, later = OnnxFile(path.with_name(FIRST)), OnnxFile(made.path)
    assert not any(name.startswith("past") for name in first.inputs) and "encoder_hidden_states" in first.inputs
    assert "encoder_hidden_states" not in later.inputs and any(".encoder." in name for name in later.inputs)
    assert any(".encoder." in name for name in first.outputs) and not any(".encoder." in name for name in later.outputs)
    for file in (first, later):
        outside = [
            item for item in onnx.load(file.path, load_external_data=False).graph.initializer if item.external_data
        ]
        assert len(outside) > 15 and {item.external_data[0].value for item in outside} == {f"{MERGED}.data"}
    assert not json.loads(later.metadata["exportcompat.contract"])["padding"]
    assert observer.check_discrepancies(made.path).success


def test_a_later_call_is_timed_with_what_the_first_has_left(merged: tuple[Path, InputObserver], tmp_path: Path) -> None:
    path, _ = merged
    assert _decoder_parts.split(path, tmp_path, {})
    ratios = compare_times(tmp_path / LATER, path, workloads=LATER_CALLS)
    assert ratios and all(0.05 < item.ratio < 20 for item in ratios)


def test_padding_of_tokens_is_seen(merged: tuple[Path, InputObserver], tmp_path: Path) -> None:
    """What clients of such files do without is right all the same, as the masks are inputs."""
    path, _ = merged
    assert _decoder_parts.split(path, tmp_path, {})
    whole, parts = OnnxFile(path), open_file(tmp_path / LATER)
    shapes = {name: [2 if axis == 0 else size for axis, size in enumerate(item)] for name, item in whole.inputs.items()}
    channels = whole.inputs["encoder_hidden_states"][2]
    feeds = {
        name: torch.zeros([size if isinstance(size, int) else 0 for size in shape]) for name, shape in shapes.items()
    }
    feeds |= {"encoder_hidden_states": torch.randn(2, 5, channels, generator=torch.Generator().manual_seed(2))}
    feeds |= {"input_ids": torch.tensor([[0, 7, 8], [4, 5, 6]]), "attention_mask": torch.tensor([[0, 1, 1], [1, 1, 1]])}
    if "encoder_attention_mask" in whole.inputs:
        feeds["encoder_attention_mask"] = torch.tensor([[1, 1, 1, 0, 0], [1] * 5])
    for _ in range(2):
        wanted, found = whole.run(feeds), parts.run(feeds)
        assert wanted.keys() == found.keys() and wanted["logits"].abs().max() > 1e-2
        assert all(torch.allclose(found[name], item, atol=1e-6) for name, item in wanted.items())
        feeds |= {name.replace("present", "past_key_values"): item for name, item in wanted.items() if name != "logits"}
        feeds |= {"input_ids": torch.tensor([[9], [3]]), "attention_mask": torch.tensor([[0, 1, 1, 1], [1] * 4])}
        feeds["encoder_hidden_states"] = feeds["encoder_hidden_states"][:, :0]


@pytest.mark.parametrize(("ratio", "reason"), [(0.5, "it is wrong"), (1.0, "it is not faster")])
def test_what_is_wrong_or_no_faster_is_not_written(
    ratio: float,
    reason: str,
    merged: tuple[Path, InputObserver],
    stopwatch: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    right = _decoder_parts._kept
    stopwatch(ratio)
    # Keys for values, and values for keys.
    monkeypatch.setattr(_decoder_parts, "_kept", lambda value, known: _swapped(right(value, known)))
    path, observer = merged
    for item in (path, path.with_name(f"{MERGED}.data")):
        (tmp_path / item.name).write_bytes(item.read_bytes())
    before = sorted(tmp_path.iterdir())
    made = serve(tmp_path / MERGED, observer, "cpu")
    assert made.path is None and reason in str(made) and sorted(tmp_path.iterdir()) == before


def _swapped(value: Any) -> Any:
    name = value.name.replace(".key", ".value") if ".key" in value.name else value.name.replace(".value", ".key")
    return next(item for item in value.graph.inputs if item.name == name)


def test_what_is_for_one_file_alone_is_refused(merged: tuple[Path, InputObserver], tmp_path: Path) -> None:
    path, observer = merged
    with pytest.raises(ExportCompatError, match="have names of their own"):
        serve(path, observer, "cpu", output=tmp_path / "other.onnx")
    with pytest.raises(ExportCompatError, match="'int4' are for decoders of one file"):
        serve(path, observer, "cpu", weights="int4")
    with pytest.raises(ExportCompatError, match="an observer is needed"):
        serve(path, None, "cpu")
    made = serve(path, None, "webgpu", unverified=True)
    assert made.path == path.with_name(LATER) and "UNVERIFIED" in str(made)
    assert OnnxFile(made.path).metadata["exportcompat.verified"] == "no"


def test_a_part_is_not_taken_for_the_whole(merged: tuple[Path, InputObserver], tmp_path: Path) -> None:
    path, observer = merged
    assert _decoder_parts.split(path, tmp_path, {})
    for name in (FIRST, LATER):
        with pytest.raises(ExportCompatError, match="one of the two files of a decoder"):
            serve(tmp_path / name, observer, "cpu")


def test_parts_of_an_earlier_export_go(merged: tuple[Path, InputObserver], tmp_path: Path) -> None:
    """They would look into weights that were written anew; what others wrote stays."""
    assert _decoder_parts.split(merged[0], tmp_path, {"exportcompat.derivations": _decoder_parts.NAME})
    _decoder_parts.drop_parts(tmp_path)
    assert not (tmp_path / FIRST).exists() and not (tmp_path / LATER).exists()
    others = tmp_path / "others"
    others.mkdir()
    assert _decoder_parts.split(merged[0], others, {})
    (others / FIRST).write_bytes(b"no model")
    _decoder_parts.drop_parts(others)
    assert (others / FIRST).exists() and (others / LATER).exists()
