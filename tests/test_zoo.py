"""The zoo: which models there are, how they are made small, and what becomes of results."""

import argparse
import inspect
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("transformers", reason="the zoo is what transformers has")
torch = pytest.importorskip("torch", reason="models are built")

from exportcompat import apply_patches
from exportcompat._observer import observe
from exportcompat._sample_inputs import Task
from exportcompat.matrix.zoo import Entry, entries, run_zoo, write_page
from exportcompat.matrix.zoo._build import Built, NotBuiltError, build
from exportcompat.matrix.zoo._outcome import OUTCOMES, _generation_error, _told
from exportcompat.matrix.zoo._run import read_results, results_file
from exportcompat.matrix.zoo._small_config import WIDTHS, _without_left_out, of_release, rules, small_config


def row(name: str, outcome: str, reason: str = "", plain: str = "") -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "reason": reason, "plain": plain}


def arguments(folder: Path, **fields: Any) -> argparse.Namespace:
    wanted = {
        "task": [],
        "type": [],
        "fresh": False,
        "again": [],
        "list": True,
        "jobs": 1,
        "timeout": 60,
        "dtype": None,
    }
    return argparse.Namespace(results=folder, **{**wanted, **fields})


class TestEntries:
    """Every type that an auto class lists."""

    def test_a_class_of_models_is_there_once(self) -> None:
        keys = [(entry.model_type, entry.architecture) for entry in entries()]
        assert len(set(keys)) == len(keys) > 500

    def test_two_classes_of_a_type_for_a_task_have_names_of_their_own(self) -> None:
        found = {entry.name: entry.architecture for entry in entries()}
        assert len(found) == len(entries())
        assert found["feature-extraction/beit"] == "BeitModel" and found["AutoBackbone/beit"] == "BeitBackbone"

    def test_decoders_of_texts_come_first_and_base_models_last(self) -> None:
        tasks = [entry.task for entry in entries()]
        assert tasks[0] == "text-generation-with-past" and tasks[-1] == "pretraining"

    def test_have_the_class_of_the_auto_class(self) -> None:
        found = {entry.name: entry.architecture for entry in entries()}
        assert found["text-generation-with-past/llama"] == "LlamaForCausalLM"
        assert found["image-text-to-text-with-past/llava"] == "LlavaForConditionalGeneration"


class TestSmallConfigurations:
    """Rules that make a configuration small."""

    def test_has_the_fields_of_a_release_where_its_class_has_them(self) -> None:
        wanted = rules()["types"]["zamba"]["known"]
        is_newer = "layers_block_type" in inspect.signature(type(small_config("zamba", "narrow"))).parameters
        found = small_config("zamba", "narrow").layers_block_type
        # Older releases have other names for them, and count them by a period.
        assert (found == wanted["layers_block_type"]) == is_newer
        assert found.count("hybrid") == 2

    def test_caps_every_size(self) -> None:
        config = small_config("llama", "narrow")
        assert (config.hidden_size, config.num_attention_heads, config.num_hidden_layers) == (64, 4, 2)
        assert config.vocab_size == 256 and config.head_dim == 16

    def test_keeps_a_layer_of_each_kind(self) -> None:
        config = small_config("gemma3_text", "narrow")
        assert set(config.layer_types) == {"sliding_attention", "full_attention"}
        assert config.num_hidden_layers == len(config.layer_types) < 5

    def test_reaches_nested_configurations(self) -> None:
        config = small_config("llava", "narrow")
        assert (config.text_config.hidden_size, config.vision_config.hidden_size) == (64, 64)

    def test_keeps_tokens_in_the_vocabulary_and_apart(self) -> None:
        config = small_config("llama4", "narrow")
        tokens = [config.boi_token_index, config.eoi_token_index, config.image_token_index]
        assert len(set(tokens)) == 3 and max(tokens) < config.text_config.vocab_size

    def test_a_task_may_need_a_field(self) -> None:
        assert small_config("bert", "narrow", "text-generation-with-past").is_decoder
        assert not getattr(small_config("bert", "narrow", "fill-mask"), "is_decoder", False)

    def test_a_backbone_keeps_the_layers_whose_states_it_gives(self) -> None:
        config = small_config("chmv2", "narrow").backbone_config
        assert len(config.out_features) == 4 and config.out_features[-1] == f"stage{config.num_hidden_layers}"

    def test_what_stands_for_an_image_has_a_token(self) -> None:
        config = small_config("blip-2", "narrow")
        assert 0 < config.image_token_index < config.text_config.vocab_size

    def test_sides_of_images_are_even_numbers_of_patches(self) -> None:
        config = small_config("idefics3", "narrow").vision_config
        assert config.image_size // config.patch_size % 2 == 0

    def test_tiles_are_as_large_as_an_image(self) -> None:
        config = small_config("llava_next", "narrow")
        side = config.vision_config.image_size
        assert all(length % side == 0 for item in config.image_grid_pinpoints for length in item)

    def test_an_inner_configuration_has_what_its_type_needs(self) -> None:
        assert small_config("cohere_compass", "narrow").text_config.rope_parameters["full_attention"]

    def test_a_rope_of_older_releases_has_another_name(self) -> None:
        config = SimpleNamespace(rope_scaling=None)
        rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
        found = of_release(config, {"rope_parameters": rope})
        assert found == {"rope_scaling": {"rope_type": "default", "mrope_section": [4, 2, 2]}}

    def test_nothing_is_none_at_any_depth(self) -> None:
        found = _without_left_out({"backbone": "nothing", "inner": {"size": "left out", "scale": "nothing"}})
        assert found == {"backbone": None, "inner": {"scale": None}}

    def test_two_configurations_in_one_are_small(self) -> None:
        config = small_config("encoder-decoder", "narrow")
        assert config.encoder.hidden_size == config.decoder.hidden_size == 64

    def test_every_set_of_rules_is_there(self) -> None:
        assert set(rules()) == {*WIDTHS, "layer_counts", "tasks", "types", "inputs"}


def test_a_decoder_that_classifies_texts_has_a_token_for_padding() -> None:
    assert small_config("llama", "narrow").pad_token_id is None
    assert small_config("llama", "narrow", "text-classification").pad_token_id == 0
    assert small_config("roberta", "narrow", "text-classification").pad_token_id == 1


def test_a_built_model_runs_on_its_inputs() -> None:
    built = build(next(entry for entry in entries() if entry.name == "text-generation-with-past/llama"))
    assert built.width == "narrow" and built.parameters < 200_000
    assert built.model(**built.calls[0]).logits.abs().max() > 0.01


@pytest.mark.parametrize(
    ("name", "argument", "shape"),
    [
        ("image-classification/siglip2", "spatial_shapes", (2, 2)),
        ("image-text-to-text-with-past/idefics3", "pixel_values", (1, 2, 3, 256, 256)),
        ("video-classification/vjepa2", "pixel_values_videos", (2, 4, 3, 64, 64)),
        ("keypoint-matching/superglue", "pixel_values", (2, 2, 3, 64, 64)),
        ("image-text-to-text-with-past/llava_next", "image_sizes", (1, 2)),
        ("image-text-to-text-with-past/pix2struct", "flattened_patches", (2, 24, 770)),
        ("image-text-to-text-with-past/muse_spark", "image_grid_thw", (1, 3)),
        ("text2text-generation-with-past/granite_speech", "input_features_mask", (2, 21)),
    ],
)
def test_models_get_images_and_sounds_in_their_form(name: str, argument: str, shape: tuple[int, ...]) -> None:
    built = build(next(entry for entry in entries() if entry.name == name))
    assert tuple(built.calls[0][argument].shape) == shape


def test_a_prompt_of_a_sound_has_no_latents_and_each_of_its_tokens_has_zeros() -> None:
    """A call of `forward` says that there is no cache; `generate` is asked for one all the same."""
    built = build(next(entry for entry in entries() if entry.name == "text-to-audio/pocket_tts"))
    assert (built.calls[0]["input_ids"][:, -1] == built.model.config.audio_bos_token_id).all()
    with apply_patches():
        observer = observe(built.model, built.calls)
        shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert shapes["audio_latents"] == {0: "batch", 1: "sequence"}
    assert tuple(observer.infer_arguments(0)["audio_latents"].shape) == (2, 8, 32)


def test_who_gives_the_tokens_of_a_decoder_does_not_generate() -> None:
    def refuse(**_: Any) -> None:
        raise ValueError("decoder_input_ids are not used")

    model: Any = SimpleNamespace(can_generate=lambda: True, generate=refuse)
    built = Built(model, [{"decoder_input_ids": 1}], "narrow", Task("visual-question-answering", ""), 1)
    assert _generation_error(built) == ""
    assert "decoder_input_ids are not used" in _generation_error(replace(built, calls=[{"input_ids": 1}]))


def test_what_cannot_be_built_says_why_for_each_set_of_rules() -> None:
    with pytest.raises(NotBuiltError) as caught:
        build(Entry("fill-mask", "AutoModelForMaskedLM", "llama", "NoSuchModel"))
    assert all(f"{width}, model: AttributeError" in str(caught.value) for width in WIDTHS)


class TestResults:
    """A file with a line for each model."""

    def test_the_last_result_of_a_model_counts_and_a_line_may_be_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "some.jsonl"
        path.write_text("\n".join([json.dumps(row("a/x", "fails")), "", json.dumps(row("a/x", "right"))]), "utf-8")
        assert read_results(path) == {"a/x": row("a/x", "right")}
        assert read_results(tmp_path / "none.jsonl") == {}

    def test_what_has_a_result_is_not_run_again(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        chosen = {"task": ["text-generation-with-past"], "type": ["llama*"]}
        run_zoo(arguments(tmp_path, **chosen))
        first, *names = capsys.readouterr().out.splitlines()
        path = Path(first.rpartition(" in ")[2])
        path.write_text(json.dumps(row(names[0], "fails")) + "\n" + json.dumps(row(names[1], "right")), "utf-8")
        run_zoo(arguments(tmp_path, **chosen))
        assert capsys.readouterr().out.splitlines()[1:] == names[2:]
        run_zoo(arguments(tmp_path, **chosen, again=["fails"]))
        assert capsys.readouterr().out.splitlines()[1:] == [names[0], *names[2:]]
        run_zoo(arguments(tmp_path, **chosen, fresh=True))
        assert capsys.readouterr().out.splitlines()[1:] == names


def test_results_in_half_precision_are_kept_apart_and_come_behind_those_in_float32(tmp_path: Path) -> None:
    for name in ("5.9.0-torch-2.13.0", "5.9.0-torch-2.13.0-float16"):
        line = json.dumps(row("ctc/c", "right")) + "\n"
        (tmp_path / f"transformers-{name}.jsonl").write_text(line, "utf-8")
    write_page(tmp_path, tmp_path / "zoo.md")
    heads = [line for line in (tmp_path / "zoo.md").read_text("utf-8").splitlines() if line.startswith("## ")]
    assert heads == ["## transformers 5.9.0, torch 2.13.0", "## transformers 5.9.0, torch 2.13.0, float16"]
    assert results_file(tmp_path, "float16").stem == f"{results_file(tmp_path).stem}-float16"


def test_a_reason_is_what_torch_says_was_wrong_without_its_advice() -> None:
    text = (
        "Failed to export the model. Next steps: - Debug it. ## Exception summary <class 'RuntimeError'>: two sizes "
        "differ (Refer to the full stack trace above for more information.)"
    )
    assert _told("", ValueError(text)) == "ValueError: <class 'RuntimeError'>: two sizes differ"
    assert _told("generate", ValueError("no advice")) == "generate: ValueError: no advice"


def test_a_reason_names_no_folder_of_a_machine() -> None:
    assert _told("", ValueError("in (/a/lib/site-packages/torch/x.py:3)")) == "ValueError: in (torch/x.py:3)"


def test_the_page_counts_by_task_and_lists_what_is_not_right(tmp_path: Path) -> None:
    rows = [
        row("fill-mask/a", "right"),
        row("fill-mask/b", "not built", "no such | thing"),
        row("ctc/c", "wrong", "1 of 2 calls: off by 3", "right"),
        {**row("text-generation-with-past/d", "right"), "no_cache": "it has no cache: one {token}"},
    ]
    path = tmp_path / "transformers-5.24.0-torch-2.13.0.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    write_page(tmp_path, tmp_path / "zoo.md")
    text = (tmp_path / "zoo.md").read_text("utf-8")
    assert "## transformers 5.24.0, torch 2.13.0\n" in text
    assert "| fill-mask | 2 | 1 |  |  |  |  |  |  | 1 | 100.0% |" in text
    assert "| **all** | 4 | 2 | 1 | 1 |  |  |  |  | 1 | 66.7% |" in text
    assert "### Right, and without a cache\n" in text
    assert "| text-generation-with-past/d | it has no cache: one &#123;token} |" in text
    assert "| ctc/c | 1 of 2 calls: off by 3 | right |" in text and "no such \\| thing" in text
    assert all(f"| {outcome} |" in text for outcome in OUTCOMES)
