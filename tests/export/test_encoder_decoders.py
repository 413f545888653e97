"""Encoder-decoders in two files: what an observer sees, what is written, and the tokens that the files generate."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
pytest.importorskip("onnxruntime", reason="the files are run")

from exportcompat import ExportCompatError, InputObserver, TextDecoder, apply_patches, export
from exportcompat._encoder_decoder._encoder_mask import encoder_attention_mask
from exportcompat._observer import observe_encoder_decoder
from exportcompat._verification._onnx_decoder import OnnxDecoder
from exportcompat._verification._onnx_file import OnnxFile
from exportcompat._verification._schedules import _tokens, decoder_schedules
from exportcompat.matrix.cases._composite_models import make_composite
from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder
from exportcompat.matrix.cases._encoder_models import sound
from exportcompat.matrix.cases._sequence_classifiers import make_classes
from exportcompat.matrix.runs._own_proofs import is_older

STEPS = 20
# BART and Marian are like T5 here: the zoo has both. On the older release one stands for all.
NAMES = ("Whisper", *(() if is_older() else ("T5", "Speech2Text", "gpt2")))
# Random weights would else make the same token again and again.
GREEDY = {
    "max_new_tokens": STEPS,
    "min_new_tokens": STEPS,
    "do_sample": False,
    "num_beams": 1,
    "no_repeat_ngram_size": 1,
}
FILES = ["encoder_model.onnx", "decoder_model_merged.onnx"]
LEAVES = [f"{layer}.{part}.{leaf}" for layer in (0, 1) for part in ("decoder", "encoder") for leaf in ("key", "value")]


def model(name: str) -> Any:
    torch.manual_seed(3)
    made = make_composite(name) if name == "gpt2" else make_encoder_decoder(name)
    # What a real model is told to do at the ends of a text says nothing about the files.
    made.generation_config.update(forced_eos_token_id=None, forced_bos_token_id=None, bad_words_ids=None)
    return made


def inputs(name: str, batch: int, length: int) -> dict[str, Any]:
    """Return the features of one second of sound, images, or sounds or a text with padding."""
    if name == "Whisper":
        extractor = transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
        waves = [wave.numpy() for wave in sound(batch, 8000 + 100 * length)]
        return {"input_features": extractor(waves, sampling_rate=16000, return_tensors="pt").input_features}
    seed = torch.Generator().manual_seed(length)
    if name == "gpt2":
        return {"pixel_values": torch.randn(batch, 3, 32, 32, generator=seed)}
    if name == "Speech2Text":
        mask = torch.ones(batch, 4 * length).long()
        mask[0, -9:] = 0
        return {"input_features": torch.randn(batch, 4 * length, 8, generator=seed), "attention_mask": mask}
    tokens = torch.randint(3, 128, (batch, length), generator=seed)
    mask = torch.ones_like(tokens)
    mask[0, -2:] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def generate(folder: Path, given: dict[str, Any], whole: Any, *, repeat_states: bool) -> Any:
    """Generate greedily: the encoder's file once, the decoder's step by step."""
    states, config = OnnxFile(folder / FILES[0]).run(given)["last_hidden_state"], whole.config
    mask = encoder_attention_mask(whole, (states,), given.get("attention_mask"))
    decoder = OnnxDecoder(folder / FILES[1])
    batch = len(states)
    tokens = torch.full((batch, 1), config.decoder_start_token_id)
    cache = decoder.empty_cache(batch)
    for step in range(STEPS):
        feeds = {
            "input_ids": tokens[:, -1:],
            "attention_mask": torch.ones_like(tokens),
            "encoder_hidden_states": states if repeat_states or not step else states[:, :0],
            "encoder_attention_mask": mask,
        }
        logits, cache = decoder({key: value for key, value in feeds.items() if value is not None}, cache)
        logits[:, -1, config.eos_token_id] = -torch.inf
        tokens = torch.cat([tokens, logits[:, -1].scatter(1, tokens, -torch.inf).argmax(-1, keepdim=True)], 1)
    return tokens[:, 1:]


@pytest.mark.parametrize("name", NAMES)
def test_two_files_verify_and_generate_the_tokens_of_eager(name: str, tmp_path: Path) -> None:
    whole = model(name)
    sizes = (9, 14) if name == "Speech2Text" else (9,)
    made = export(whole, [inputs(name, 2, size) for size in sizes], tmp_path)
    assert [file.name for file in (made.files[0], made.path)] == FILES
    assert made.discrepancies is not None
    assert (made.discrepancies.success, made.discrepancies.summary[:3]) == (True, "ok:")
    assert len(made.discrepancies) > 188
    given = inputs(name, 3, 23)
    wanted = whole.generate(**given, **GREEDY)[:, -STEPS:]
    for repeat_states in (True, False):
        assert generate(tmp_path, given, whole, repeat_states=repeat_states).tolist() == wanted.tolist()
    assert wanted.shape == (3, STEPS)


@pytest.mark.parametrize("name", NAMES[:1])
def test_two_observers_export_as_a_user_would(name: str, tmp_path: Path) -> None:
    whole = model(name)
    decoder, encoder = TextDecoder(whole), whole.get_encoder()
    states, tokens = InputObserver(), InputObserver()
    before = dict(vars(whole))
    with apply_patches(), states(encoder), tokens(decoder):
        whole.generate(**inputs(name, 2, 9), max_new_tokens=4, min_new_tokens=4)
    assert vars(whole) == before
    assert tokens.interface() == (
        ["input_ids", "attention_mask", "encoder_hidden_states", *(f"past_key_values.{leaf}" for leaf in LEAVES)],
        ["logits", *(f"present.{leaf}" for leaf in LEAVES)],
    )
    for part, observer, file in ((encoder, states, FILES[0]), (decoder, tokens, FILES[1])):
        shapes, kwargs = observer.infer_dynamic_shapes(set_batch_dimension_for=True), observer.infer_arguments()
        with apply_patches():
            torch.onnx.export(part, (), str(tmp_path / file), kwargs=kwargs, dynamic_shapes=shapes, dynamo=True)
        assert observer.check_discrepancies(tmp_path / file).success
    assert len(states) == 1 and len(tokens) == 3


def test_an_encoder_decoder_is_not_observed_as_a_whole() -> None:
    observer, whole = InputObserver(), model("Whisper")
    with apply_patches(), observer(whole):
        whole.generate(**inputs("Whisper", 1, 9), max_new_tokens=3)
    with pytest.raises(ExportCompatError, match=r"export exportcompat.TextDecoder\(model\) and model.get_encoder\(\)"):
        observer.infer_arguments()


def test_a_whole_model_takes_texts_of_any_two_lengths(tmp_path: Path) -> None:
    def given(batch: int, length: int, others: int) -> dict[str, Any]:
        return {**inputs("Bart", batch, length), "decoder_input_ids": inputs("Bart", batch, others)["input_ids"]}

    whole = model("Bart")
    # Equal lengths in the sample do not tie the two.
    file = OnnxFile(export(whole, given(2, 5, 5), tmp_path / "model.onnx").path)
    for call in (given(3, 7, 4), given(1, 4, 11)):
        torch.testing.assert_close(file.run(call)["logits"], whole(**call).logits, atol=1e-4, rtol=1e-4)


@contextmanager
def observed(whole: Any) -> Iterator[Any]:
    with apply_patches(), InputObserver()(TextDecoder(whole)):
        yield whole


def test_a_call_without_states_is_refused() -> None:
    with observed(model("Whisper")) as whole, pytest.raises(ExportCompatError, match="without encoder_outputs or"):
        whole(**inputs("Whisper", 1, 9), decoder_input_ids=torch.ones(1, 1, dtype=torch.int64))


def test_a_model_that_shortens_masks_is_as_it_was_after_a_call() -> None:
    whole = model("Speech2Text")
    decoder, given = TextDecoder(whole), inputs("Speech2Text", 2, 9)
    before = [dict(vars(module)) for module in whole.modules()]
    states = whole.get_encoder()(**given)
    mask = encoder_attention_mask(whole, states, given["attention_mask"])
    assert mask is not None and mask.tolist() == [[1] * 7 + [0] * 2, [1] * 9]
    tokens = torch.ones(2, 1).long()
    found = decoder(tokens, tokens, states[0], mask)["logits"]
    assert [dict(vars(module)) for module in whole.modules()] == before
    torch.testing.assert_close(found, whole(**given, decoder_input_ids=tokens).logits)


def test_padding_that_a_decoder_cannot_be_told_is_refused() -> None:
    whole = model("gpt2")
    states, mask = torch.zeros(2, 5, 8), torch.ones(2, 9).long()
    assert encoder_attention_mask(whole, (states,), mask) is None
    mask[0, -1] = 0
    with pytest.raises(ExportCompatError, match="VisionEncoderDecoderModel has padding along what its"):
        encoder_attention_mask(whole, (states,), mask)
    # Images as padded patches have a mask as long as their states.
    torch.testing.assert_close(encoder_attention_mask(whole, (states,), mask[:, -5:]), mask[:, -5:])


def test_another_model_is_refused() -> None:
    with pytest.raises(ExportCompatError, match="Linear is no encoder-decoder of transformers"):
        TextDecoder(torch.nn.Linear(1, 1))


def test_a_folder_is_needed(tmp_path: Path) -> None:
    with pytest.raises(
        ExportCompatError, match=r"makes encoder_model.onnx and decoder_model_merged.onnx; name a folder"
    ):
        export(model("Whisper"), inputs("Whisper", 1, 9), tmp_path / "model.onnx")


@pytest.mark.skipif(not is_older(), reason="from 5.0 on upstream has an assertion, and no spec is needed")
def test_a_classifier_takes_the_last_end_of_each_text(tmp_path: Path) -> None:
    torch.manual_seed(0)
    classifier = make_classes("Bart").model
    texts = torch.randint(3, 128, (2, 7), generator=torch.Generator().manual_seed(1))
    texts[:, -1] = classifier.config.eos_token_id
    file = OnnxFile(export(classifier, {"input_ids": texts}, tmp_path / "model.onnx").path)
    texts[0, 3] = classifier.config.eos_token_id
    with pytest.raises(ValueError, match="same number of <eos> tokens"):
        classifier(texts)
    alone = torch.cat([classifier(text[None]).logits for text in texts])
    torch.testing.assert_close(file.run({"input_ids": texts})["logits"], alone)
    texts[1] = 5
    with pytest.raises(Exception, match="GatherElements"):
        file.run({"input_ids": texts})


def florence() -> Any:
    """Return a Florence-2, whose model makes the embeddings of a text and of images before its encoder."""
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 60, "max_position_embeddings": 64}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48}
    ends = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    stages = {"embed_dim": [16, 32], "depths": [1] * 2, "num_heads": [2] * 2, "num_groups": [2] * 2}
    seen = {**stages, "window_size": 4, "projection_dim": 32, "max_position_embeddings": 8}
    text = transformers.BartConfig(**sizes, **heads, **ends, forced_eos_token_id=None, init_std=0.2).to_dict()
    config = transformers.Florence2Config(text_config=text, vision_config=seen, image_token_id=59, **ends)
    torch.manual_seed(0)
    return transformers.Florence2ForConditionalGeneration(config).eval()


@pytest.mark.skipif(not hasattr(transformers, "Florence2Config"), reason="transformers has it from 4.56 on")
def test_an_encoder_that_is_given_embeddings_takes_text_and_images(tmp_path: Path) -> None:
    model = florence()
    images = torch.randn(1, 3, 32, 32)
    tokens = torch.cat([torch.full((1, 17), 59), torch.arange(3, 9)[None]], 1)
    given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "pixel_values": images}
    with apply_patches():
        encoder, observer = observe_encoder_decoder(model, given)["encoder"]
    result = export(encoder, observer, tmp_path / "encoder_model.onnx")
    assert result.discrepancies is not None and result.discrepancies.success, str(result.discrepancies)
    file = OnnxFile(tmp_path / "encoder_model.onnx")
    assert file.inputs["input_ids"] == ["batch", "sequence"] and "pixel_values" in file.inputs
    assert not TextDecoder(model)._has_tuples


class Codes(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch comes from importorskip.
    """Takes `(batch, sequence, 9)` tokens and a cache."""

    def forward(self, input_ids: Any, past_key_values: Any = None) -> Any:
        keys = input_ids.sum(2)[:, None, :, None].expand(-1, 1, -1, 4).float()
        keys = keys if past_key_values is None else torch.cat([past_key_values[0][0], keys], 2)
        return {"logits": input_ids.flatten(0, 1).float(), "past_key_values": [(keys, keys)]}


def test_a_decoder_of_sounds_has_several_tokens_for_each_step() -> None:
    tokens = torch.ones(2, 3, 9, dtype=torch.int64)
    observer = InputObserver()
    with observer(Codes()) as watched:
        for length in (1, 2):
            watched._model(tokens[:, :length], [(torch.ones(2, 1, length, 4),) * 2])
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True)["input_ids"] == {0: "batch", 1: "sequence"}
    schedule = replace(decoder_schedules()[0], batch=2, greedy=True, codes=9)
    logits = torch.arange(18.0)[:, None, None] * torch.ones(18, 4, 5)
    logits[:, -1] = torch.nn.functional.one_hot(torch.arange(18) % 5, 5)
    fed = _tokens(schedule, 1, logits, 5, None)
    assert fed.tolist() == (torch.arange(18) % 5).reshape(2, 1, 9).tolist()
    assert _tokens(schedule, 4, None, 5, torch.Generator()).shape == (2, 4, 9)


def test_an_encoder_whose_states_are_a_map_is_refused() -> None:
    """The states of PP-FormulaNet are `(batch, channels, rows, columns)`, of which no later call can have a part."""
    given = {"encoder_outputs": (torch.zeros(2, 8, 3, 3),), "decoder_input_ids": torch.ones(2, 1, dtype=torch.int64)}
    with pytest.raises(ExportCompatError, match=r"returns \(2, 8, 3, 3\), and a decoder's file takes states of"):
        TextDecoder(model("T5")).arguments(given)


def test_states_of_the_encoder_in_place_of_its_inputs(tmp_path: Path) -> None:
    made, tokens = model("T5"), torch.tensor([[1, 5, 7]])
    given = {"encoder_outputs": made.get_encoder()(tokens), "attention_mask": torch.ones_like(tokens)}
    with pytest.raises(ExportCompatError, match="did not call the encoder with the inputs encoder_outputs, attention"):
        export(made, given, tmp_path)


Module: Any = torch.nn.Module


class _OfDocuments(Module):  # type: ignore[misc,unused-ignore]
    """An encoder-decoder of words whose encoder has states of an image behind theirs, as UDOP's."""

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        raise NotImplementedError


def test_the_mask_that_an_encoder_returns_is_that_of_its_states() -> None:
    class Outputs(list[Any]):
        attention_mask = torch.tensor([[1, 1, 0, 1, 1]])

    model, outputs, mask = _OfDocuments(), Outputs([torch.zeros(1, 5, 8)]), torch.tensor([[1, 1, 0]])
    assert torch.equal(encoder_attention_mask(model, outputs, mask), Outputs.attention_mask)
    # One of words alone returns no mask, and has a state for each of them.
    assert torch.equal(encoder_attention_mask(model, (torch.zeros(1, 3, 8),), mask), mask)
