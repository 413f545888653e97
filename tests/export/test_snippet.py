"""The snippet of the README works unchanged for every case: observe `generate`, export, compare."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import ExportCompatError, InputObserver, apply_patches
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.checks._restoration import Snapshot
from exportcompat.matrix.runs._own_proofs import is_older

# One has layers of one kind, one of two, and one has states besides; the cases `_export` of the matrix show more.
CASES: tuple[str, ...] = ("llama", "gemma2_window", "jamba")
CASES += () if is_older() else ("tiny_gpt",)
STORED = 3
CALLS = STORED + 188
DECODER = {
    "input_ids": {0: "batch", 1: "sequence"},
    "attention_mask": {0: "batch", 1: "total_sequence"},
    "position_ids": {0: "batch", 1: "sequence"},
}
LEAF = {0: "batch", 2: "past_sequence"}


def prompt(length: int = 5, batch: int = 1) -> dict[str, Any]:
    tokens = torch.randint(3, 128, (batch, length), generator=torch.Generator().manual_seed(1))
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def watched(model: Any, inputs: dict[str, Any], steps: int = 8) -> InputObserver:
    observer = InputObserver()
    with apply_patches(), observer(model):
        model.generate(**inputs, max_new_tokens=steps)
    return observer


@pytest.mark.parametrize("name", CASES)
def test_snippet(name: str, tmp_path: Path) -> None:
    decoder, state, path = find_case(name).decoder(), Snapshot(), tmp_path / "model.onnx"
    state.note_model(decoder)
    model = decoder.model
    observer = InputObserver()
    with apply_patches(), observer(model):
        model.generate(**prompt(), max_new_tokens=8)
    with apply_patches():
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs=observer.infer_arguments(),
            dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
            dynamo=True,
            # Older releases of torch do not optimise unless they are asked to.
            optimize=True,
            verbose=False,
        )
    found = observer.check_discrepancies(path)
    assert (found.success, len(found)) == (True, CALLS), str(found)
    # `generate` asks for the logits of the last token; the graph has those of all.
    assert all(row.outputs["logits"][1] == row.new for row in found[STORED:])
    assert state.changes(decoder) == []


def test_a_prompt_of_one_token_specialises_nothing() -> None:
    observer = watched(find_case("llama").decoder().model, prompt(1))
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert {name: shapes[name] for name in DECODER} == DECODER
    arguments = observer.infer_arguments()
    assert all(size >= 2 for name in DECODER for size in arguments[name].shape)


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_axes_and_arguments_are_those_of_a_decoder_outside_of_every_scope(steps: int) -> None:
    """With one step nothing but the prefill was seen: the cache has the shape of the one that came back."""
    decoder = find_case("mistral_window").decoder()
    observer, cache = watched(decoder.model, prompt(), steps), decoder.past_argument
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert shapes == {**DECODER, cache: [LEAF] * 4}
    arguments = observer.infer_arguments()
    batch, new = arguments["input_ids"].shape
    past = arguments[cache].layers[0].keys.shape[2]
    assert arguments["attention_mask"].shape == (batch, past + new)
    assert arguments["position_ids"].shape == (batch, new)
    assert min(batch, new, past) >= 2
    assert arguments[cache].get_seq_length() == past


def test_a_stored_call_is_given_back_with_an_empty_cache() -> None:
    decoder = find_case("llama").decoder()
    observer, cache = watched(decoder.model, prompt()), decoder.past_argument
    first, second = observer.infer_arguments(0), observer.infer_arguments(1)
    assert first[cache].layers[0].keys.shape == (1, 2, 0, 8)
    assert second[cache].layers[0].keys.shape == (1, 2, 5, 8)
    assert (first["attention_mask"].shape, second["attention_mask"].shape) == ((1, 5), (1, 6))
    assert second["position_ids"].tolist() == [[5]]


@pytest.mark.parametrize(("name", "past"), [("lfm2", 5), ("jamba", 5), ("mamba", 0)])
def test_the_mask_of_a_stored_call_has_the_length_that_the_cache_tells(name: str, past: int) -> None:
    """The first layer has a state and no length, and Mamba nothing else; a state takes the mask of new tokens."""
    observer = watched(find_case(name).decoder().model, prompt())
    assert observer.infer_arguments(1)["attention_mask"].shape == (1, past + 1)
    made = observer.infer_arguments()
    assert made["attention_mask"].shape[1] >= made["input_ids"].shape[1] + 2


def test_states_are_named_as_a_past_and_a_present() -> None:
    model = find_case("mamba").decoder().model
    inputs, outputs = watched(model, prompt(), 2).interface()
    leaves = [f"{layer}.{leaf}" for layer in (0, 1) for leaf in ("conv_state", "recurrent_state")]
    assert inputs == ["input_ids", "attention_mask", *(f"past_key_values.{leaf}" for leaf in leaves)]
    assert outputs == ["logits", *(f"present.{leaf}" for leaf in leaves)]


def test_a_cache_without_a_scope_is_refused_by_name() -> None:
    decoder, observer = find_case("llama").decoder(), InputObserver()
    model, name = decoder.model, decoder.past_argument
    with pytest.raises(ExportCompatError, match=rf"argument '{name}' has a .*DynamicCache.*apply_patches\(\)"):
        with observer(model):
            model.generate(**prompt(), max_new_tokens=2)
    assert "forward" not in vars(model)


def test_another_models_file_fails(tmp_path: Path) -> None:
    observer = watched(find_case("llama").decoder().model, prompt())
    other = find_case("llama").decoder().model
    other.lm_head.weight.data[7] += 1.0
    path = tmp_path / "model.onnx"
    with apply_patches():
        shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
        arguments = observer.infer_arguments()
        torch.onnx.export(other, (), str(path), kwargs=arguments, dynamic_shapes=shapes, dynamo=True, verbose=False)
    found = observer.check_discrepancies(path)
    assert not any(row.success for row in found)
    assert 0 < found[0].share < 0.1
