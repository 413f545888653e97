"""The command line: models of sounds and of images with texts, and what is refused before any work."""

import json
import os
import shutil
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
onnx = pytest.importorskip("onnx", reason="the file is read")
numpy = pytest.importorskip("numpy", reason="inputs are arrays")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import apply_patches
from exportcompat._cli import _export
from exportcompat._cli._pace import Pace
from exportcompat._cli._progress_counts import DECOMPOSED, LAYERS, TRANSLATED, counting_nodes
from exportcompat._cli._talk import Talk, calm
from exportcompat._exporter._steps import _telling
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.cases._encoder_models import make_clip, make_wav2vec2

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    find_case("llama").decoder().model.save_pretrained(folder)
    return folder


def ctc(folder: Path) -> Path:
    config = make_wav2vec2().model.config
    # A second of sound is 200 steps, and not 1,600.
    config.conv_stride = (10, 8)
    transformers.Wav2Vec2ForCTC(config).eval().save_pretrained(folder)
    return folder


def test_a_model_of_sounds(run: Run, tmp_path: Path) -> None:
    source = ctc(tmp_path / "ctc")
    (source / "preprocessor_config.json").write_text('{"feature_size":  1}', "utf-8")
    (source / "vocab.json").write_text('{"a" :1}', "utf-8")
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    status, text, messages = run("export", source, tmp_path / "out")
    assert (status, "ok: 5 calls" in text) == (0, True), messages
    assert "Wav2Vec2ForCTC for ctc" in messages
    for name in ("preprocessor_config.json", "vocab.json"):
        assert (tmp_path / "out" / name).read_bytes() == before[name]
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    assert run("verify", tmp_path / "out")[0] == 0
    # The name of a folder that is gone is no name of the hub.
    shutil.move(source, tmp_path / "moved")
    status, _, messages = run("verify", tmp_path / "out" / "model.onnx")
    assert status == 2 and "not there any more; give --model FOLDER" in messages


def test_images_and_texts(run: Run, tmp_path: Path) -> None:
    make_clip().model.save_pretrained(tmp_path / "clip")
    status, text, messages = run("export", tmp_path / "clip", tmp_path / "out", "--layout", "transformers.js")
    assert (status, "ok: " in text) == (0, True), messages
    assert "CLIPModel for zero-shot-image-classification" in messages
    assert (tmp_path / "out" / "onnx" / "model.onnx").is_file()
    assert not (tmp_path / "out" / "generation_config.json").exists()


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a model is loaded."""

    def load(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(_export, "load", load)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--opset", "17"], "opset 17 cannot be written"),
        (["--opset", "99"], "opset 99 cannot be written"),
        (["--task", "text-generatio"], "did you mean 'text-generation'"),
        (["--task", "automatic-speech-recognition"], "here it is 'ctc', or 'automatic-speech-recognition-with-past'"),
        (["--include", "dynamic-cache-pytre"], "did you mean 'dynamic-cache-pytree'"),
        (["--prompt", " "], "the prompt is empty"),
        (["--image", "no.png"], "--image no.png: there is no such file"),
        (["--inputs", "{npz}"], "in.npz: 1 of 2 values of 'noise' are infinite or no numbers"),
    ],
)
def test_what_is_asked_is_checked_first(options: list[str], wanted: str, run: Run, tmp_path: Path, llama: Path) -> None:
    npz = tmp_path / "in.npz"
    numpy.savez(npz, input_ids=numpy.ones((1, 3), "int64"), noise=numpy.array([1.0, numpy.nan]))
    status, _, messages = run("export", llama, tmp_path / "out", *(option.format(npz=npz) for option in options))
    assert (status, wanted in messages) == (2, True), messages
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_work")
def test_an_output_that_is_no_folder(run: Run, tmp_path: Path, llama: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    for path in (Path("/dev/null"), link):
        if os.path.lexists(path):
            status, _, messages = run("export", llama, path)
            assert (status, f"{path} is no folder; name one" in messages) == (2, True), messages


@pytest.mark.usefixtures("no_work")
def test_weights_that_are_missing(run: Run, tmp_path: Path, llama: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(llama / "config.json", broken)
    shards = {f"layer.{index}": f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)}
    shutil.copy(llama / "model.safetensors", broken / shards["layer.1"])
    (broken / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}), "utf-8")
    status, _, messages = run("export", broken, tmp_path / "out")
    assert status == 2
    assert "names 'model-00002-of-00003.safetensors', which is not there; 2 of 3 files of weights are" in messages


def test_a_derived_file_needs_a_cache(run: Run, tmp_path: Path, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_export, "export", None)
    status, _, messages = run("export", llama, tmp_path / "out", "--serve", "cpu", "--task", "text-generation")
    assert (status, "is exported for 'text-generation', which has none; leave out --serve" in messages) == (2, True)


def test_a_sound_without_samples(run: Run, tmp_path: Path) -> None:
    source = ctc(tmp_path / "ctc")
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(source)
    with wave.open(str(tmp_path / "empty.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
    status, _, messages = run("export", source, tmp_path / "out", "--audio", tmp_path / "empty.wav")
    assert (status, "empty.wav has no samples; give a sound" in messages) == (2, True), messages


def test_weights_of_llama_cpp_are_no_onnx_file(run: Run, tmp_path: Path, llama: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    shutil.copy(llama / "config.json", tmp_path)
    folder, file, out = tmp_path, tmp_path / "model.gguf", tmp_path / "out"
    for command in (
        ["verify", file],
        ["verify", folder],
        ["serve", file],
        ["export", file, out],
        ["export", folder, out],
    ):
        status, _, messages = run(*command)
        assert (status, f"{command[1]} has weights in GGUF, a format of llama.cpp" in messages) == (2, True), messages


def test_what_is_no_exported_file_says_what_to_name(run: Run, llama: Path) -> None:
    status, _, messages = run("verify", llama)
    assert (status, "name a folder that was exported" in messages) == (2, True), messages
    status, _, messages = run("verify", llama / "model.safetensors")
    assert (status, "has the weights of a model, and no graph" in messages) == (2, True), messages


def no_hub(*args: Any, **kwargs: Any) -> None:
    raise OSError("the hub cannot be reached")


@pytest.mark.skipif(
    int(transformers.__version__.partition(".")[0]) < 5,
    reason="with transformers 4 BERT is asked for a cache that it does not have, and the comparison fails",
)
def test_a_model_without_a_cache_is_refused_with_the_option_to_give(run: Run, tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=32)).save_pretrained(tmp_path / "bert")
    status, _, messages = run("export", tmp_path / "bert", tmp_path / "out", "--task", "text-generation-with-past")
    assert (status, "(to the command, --task text-generation) to export it for whole texts" in messages) == (2, True)


def test_a_folder_that_is_misspelt(run: Run, tmp_path: Path, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", no_hub)
    shutil.copytree(llama, tmp_path / "models" / "llama")
    status, _, messages = run("export", "models/llam", "out")
    wanted = "there is no such folder here, so it was taken for a name of the hub; did you mean 'llama'?"
    assert (status, wanted in messages) == (2, True), messages


@pytest.mark.parametrize("is_verbose", [False, True])
def test_a_graph_that_torch_prints_is_kept_back(is_verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    from torch.export import _trace

    @_trace._log_export_wrapper  # type: ignore[untyped-decorator,unused-ignore]
    def fail() -> None:
        error = RuntimeError("a branch on data")
        error.partial_fx_graph = "def forward(self):"  # type: ignore[attr-defined]  # torch hangs it there.
        raise error

    with pytest.raises(RuntimeError, match="a branch"), calm(is_verbose=is_verbose):
        fail()
    assert ("def forward" in capsys.readouterr().err) is is_verbose
    assert "print" not in vars(_trace)


@pytest.mark.usefixtures("no_work")
def test_an_existing_folder_is_left_alone(run: Run, tmp_path: Path, llama: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    status, _, messages = run("export", llama, tmp_path)
    assert status == 2 and "is not empty; name another folder, or pass --overwrite" in messages
    status, _, messages = run("export", llama, llama, "--overwrite")
    assert status == 2 and "is the folder of the model" in messages
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_ctrl_c_leaves_nothing(run: Run, tmp_path: Path, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch.onnx, "export", stop)
    status, _, messages = run("export", llama, tmp_path / "deep" / "out")
    assert (status, messages.splitlines()[-1]) == (130, "exportcompat: interrupted")
    assert list(tmp_path.iterdir()) == []


def test_calls_that_are_compared_are_counted() -> None:
    talk = Talk(is_quiet=True)
    talk("verify ...")
    tell = _telling(talk)
    assert callable(tell)
    tell(3, 12)
    assert talk.status().startswith("  verify: 3 of 12 calls, ")
    assert _telling(print) is False


def test_folders_without_whole_weights(run: Run, tmp_path: Path, llama: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(llama, broken)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    status, _, messages = run("export", broken, tmp_path / "out")
    assert status == 2 and "it is truncated: it has 5000 bytes" in messages
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "model.gguf").write_bytes(b"GGUF")
    status, _, messages = run("export", tmp_path / "g", tmp_path / "out")
    assert status == 2 and "weights in GGUF" in messages
    (tmp_path / "empty").mkdir()
    status, _, messages = run("verify", tmp_path / "empty")
    assert status == 2 and "has no ONNX file, and its onnx/ has none; it has nothing" in messages


def test_arrays_are_given(run: Run, tmp_path: Path, llama: Path) -> None:
    numpy.savez(tmp_path / "in.npz", input_idz=numpy.ones((1, 3), "int64"))
    status, _, messages = run("export", llama, tmp_path / "out", "--inputs", tmp_path / "in.npz")
    assert status == 2 and "has 'input_idz', which the model does not take; did you mean 'input_ids'" in messages


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def at(self, now: float) -> None:
        self.now = now


def test_what_is_left_of_an_export_is_learnt_from_the_one_before() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.left() is None
    phases = ((LAYERS, 2.0), (DECOMPOSED, 4.0), (TRANSLATED, 6.0))
    for what, now in phases:
        clock.at(now)
        pace.note(what, 1, 1)
    clock.at(8.0)
    pace.begin()
    # All four took as long: half of the second phase is three eighths of the whole.
    clock.at(10.0)
    pace.note(LAYERS, 1, 1)
    clock.at(11.0)
    pace.note(DECOMPOSED, 1, 2)
    assert pace.left() == pytest.approx(5.0)


def test_nodes_are_counted_and_torch_is_as_it_was_afterwards() -> None:
    seen: dict[str, list[tuple[int, int]]] = {}

    def count(what: str, done: int, total: int) -> None:
        seen.setdefault(what, []).append((done, total))

    model = torch.nn.Sequential(torch.nn.ModuleList([torch.nn.Linear(2, 2)])[0], torch.nn.ReLU())
    before = torch.fx.Interpreter.run_node
    with counting_nodes(count):
        with apply_patches() as report:
            # To a spec no function looks like that of another release.
            assert not report.drifted
        torch.onnx.export(model.eval(), (torch.ones(2, 2),), dynamo=True, verbose=False)
    assert torch.fx.Interpreter.run_node is before
    assert list(seen) == [DECOMPOSED, TRANSLATED]
    for counts in seen.values():
        # The last pass is over a graph that may be smaller.
        assert counts == sorted(counts) and counts[-1][0] >= counts[-1][1] - 1
