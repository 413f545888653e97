"""Real clients load what `export` writes, and generate the tokens that eager generates."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")
onnxruntime = pytest.importorskip("onnxruntime", reason="the clients run on it")

from exportcompat import apply_patches, export
from exportcompat._exporter._client_configs import write_configs
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder
from exportcompat.matrix.cases._encoder_models import make_wav2vec2

STEPS = 32
ENCODER: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
}
GREEDY = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "do_sample": False}


def prompt(batch: int, length: int = 6) -> dict[str, Any]:
    """Return tokens, the first sequence with two of left padding if there are several."""
    tokens = torch.randint(3, 128, (batch, length), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(tokens)
    if batch > 1:
        tokens[0, :2] = mask[0, :2] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def eager(name: str, inputs: dict[str, Any]) -> Any:
    return find_case(name).decoder().model.generate(**inputs, **GREEDY)


@pytest.mark.parametrize("name", ["llama", "mistral_window"])
def test_optimum_generates_the_same_tokens(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("optimum.onnxruntime", reason="optimum-onnx 0.1.0 needs transformers below 4.58")
    export(find_case(name).decoder().model, prompt(1), tmp_path, verify=False)
    inputs = prompt(2)
    found = runtime.ORTModelForCausalLM.from_pretrained(tmp_path).generate(**inputs, **GREEDY)
    assert found.shape == (2, 6 + STEPS)
    assert torch.equal(found, eager(name, inputs))


def prefill(path: Path, inputs: dict[str, Any]) -> Any:
    """Return the logits that a file of a decoder gives for one text on an empty cache."""
    runtime = pytest.importorskip("onnxruntime", reason="the file runs on it")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    positions = torch.arange(inputs["input_ids"].shape[1])[None]
    given = {name: value.numpy() for name, value in {**inputs, "position_ids": positions}.items()}
    for item in session.get_inputs():
        if item.name not in given:
            _, heads, _, channels = item.shape
            given[item.name] = torch.zeros(1, heads, 0, channels).numpy()
    return torch.from_numpy(session.run(["logits"], given)[0])


@pytest.mark.parametrize(
    ("name", "is_needed"), [("phi3_longrope", True), ("llama_dynamic", True), ("deepseek_v3", False)]
)
def test_the_exporter_of_optimum_is_right_in_a_scope(name: str, is_needed: bool, tmp_path: Path) -> None:
    exporters = pytest.importorskip("optimum.exporters.onnx", reason="optimum-onnx 0.1.0 needs transformers below 4.58")
    # Beyond the limits of both ropes; optimum traces 16 tokens.
    inputs, model, found = prompt(1, 70), find_case(name).decoder().model, {}
    with torch.no_grad():
        wanted = model(**inputs).logits
    for folder, scope in (("patched", apply_patches()), ("plain", nullcontext())):
        options = {"task": "text-generation-with-past", "do_validation": False, "no_post_process": True}
        with scope:
            exporters.onnx_export_from_model(find_case(name).decoder().model, tmp_path / folder, **options)
        found[folder] = prefill(tmp_path / folder / "model.onnx", inputs)
    assert torch.allclose(found["patched"], wanted, atol=1e-3)
    assert torch.allclose(found["plain"], wanted, atol=1e-3) is not is_needed


# The last one is of a type that it does not know by its name.
@pytest.mark.parametrize("name", ["llama", "gemma2_window", "cohere"])
def test_genai_generates_the_same_tokens(name: str, tmp_path: Path) -> None:
    genai = pytest.importorskip("onnxruntime_genai", reason="there are no wheels for every platform")
    numpy = pytest.importorskip("numpy", reason="its tokens are arrays")
    inputs = prompt(1)
    export(find_case(name).decoder().model, inputs, tmp_path, verify=False)
    model = genai.Model(str(tmp_path))
    settings = genai.GeneratorParams(model)
    settings.set_search_options(max_length=6 + STEPS, min_length=6 + STEPS, do_sample=False)
    generator = genai.Generator(model, settings)
    generator.append_tokens(inputs["input_ids"].numpy().astype(numpy.int32))
    while not generator.is_done():
        generator.generate_next_token()
    assert generator.get_sequence(0).tolist() == eager(name, inputs)[0].tolist()


@pytest.mark.parametrize(
    ("name", "client"),
    [("Bart", "ORTModelForSeq2SeqLM"), ("T5", "ORTModelForSeq2SeqLM"), ("Whisper", "ORTModelForSpeechSeq2Seq")],
)
def test_optimum_generates_the_same_tokens_with_two_files(name: str, client: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("optimum.onnxruntime", reason="optimum-onnx 0.1.0 needs transformers below 4.58")
    torch.manual_seed(3)
    whole = make_encoder_decoder(name)
    whole.generation_config.forced_eos_token_id = None
    inputs = prompt(2) if name != "Whisper" else {"input_features": torch.randn(2, 8, 100)}
    export(whole, inputs, tmp_path, verify=False)
    # Random weights would else make the same token again and again.
    settings = {**GREEDY, "no_repeat_ngram_size": 1}
    found = getattr(runtime, client).from_pretrained(tmp_path).generate(**inputs, **settings)
    wanted = whole.generate(**inputs, **settings)
    assert torch.equal(found, wanted) and wanted.shape[1] >= STEPS


def image_model() -> tuple[Any, dict[str, Any]]:
    """Return ViT, and images."""
    transformers = pytest.importorskip("transformers", reason="the models are of transformers")
    config = transformers.ViTConfig(**ENCODER, image_size=32, patch_size=8)
    return transformers.ViTForImageClassification(config), {"pixel_values": torch.randn(3, 3, 32, 32)}


def sound_model() -> tuple[Any, dict[str, Any]]:
    """Return wav2vec 2.0 with its head for CTC, and sounds."""
    transformers = pytest.importorskip("transformers", reason="the models are of transformers")
    config = make_wav2vec2().model.config
    config.vocab_size = 32
    return transformers.Wav2Vec2ForCTC(config), {"input_values": torch.randn(3, 700)}


@pytest.mark.parametrize(
    ("make", "client"),
    [(image_model, "ORTModelForImageClassification"), (sound_model, "ORTModelForCTC")],
    ids=["image", "sound"],
)
def test_clients_of_images_and_sounds_compute_what_eager_does(make: Any, client: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    model, inputs = make()
    model.eval()
    # Another size of the batch, and for sounds other lengths, than what is called afterwards.
    (name, value), *_ = inputs.items()
    calls = [{name: value[:2]}] if value.dim() > 2 else [{name: value[:2, :500]}, {name: value[:2, :600]}]
    export(model, calls, tmp_path, verify=False)
    with torch.no_grad():
        wanted = model(**inputs).logits
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(["logits"], {name: value.numpy()})[0]
    assert torch.allclose(torch.from_numpy(found), wanted, atol=1e-3) and wanted.abs().max() > 0.1
    runtime = pytest.importorskip("optimum.onnxruntime", reason="optimum-onnx 0.1.0 needs transformers below 4.58")
    found = getattr(runtime, client).from_pretrained(tmp_path)(**inputs).logits
    assert torch.allclose(torch.as_tensor(found), wanted, atol=1e-3)


@pytest.mark.parametrize(
    ("name", "is_written"),
    [("past_key_values.0.value", True), ("past_key_values.0.conv_state", False), ("pixel_values", False)],
)
def test_genai_is_told_of_keys_and_values_alone(name: str, is_written: bool, tmp_path: Path) -> None:
    model = find_case("llama").decoder().model
    names = ["input_ids", "past_key_values.0.key", name]
    written = write_configs(model, tmp_path / "model.onnx", names)
    assert ("genai_config.json" in {file.name for file in written}) is is_written
