"""What a notebook shows: the snippet of onnx-diagnostic with one other import, tables, and what is refused early."""

import dataclasses
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
transformers = pytest.importorskip("transformers", reason="the models are of transformers")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import Discrepancies, Discrepancy, ExportCompatError, TextDecoder, apply_patches, plan
from exportcompat.compat.onnx_diagnostic import (
    InputObserver,
    register_additional_serialization_functions,
    torch_export_patches,
)
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder


def test_the_snippet_moves_by_one_import(tmp_path: Path) -> None:
    model, observer = find_case("llama").decoder().model, InputObserver()
    tokens = torch.randint(3, 128, (1, 5))
    with register_additional_serialization_functions(patch_transformers=True), observer(model, store_n_calls=2):
        model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=3)
    path = tmp_path / "model.onnx"
    with torch_export_patches(patch_transformers=True) as modificator:
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs=modificator(observer.infer_arguments()),
            dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    assert "dynamic-cache-pytree" in modificator.report._repr_html_()
    calls: list[tuple[int, int]] = []
    found = observer.check_discrepancies(path, progress_bar=lambda *call: calls.append(call), atol=1e-3)
    assert found.success, str(found)
    assert (calls[0], calls[-1], len(calls)) == ((1, 2), (190, 190), 190)
    assert "LlamaForCausalLM.forward" in repr(observer) and "<td" in observer._repr_html_()
    assert "ok: 190 calls" in repr(found) and "batch 3, padding 2" in found._repr_html_()


def test_a_bar_is_written_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    from exportcompat._observer._progress import Progress, telling

    with telling(True) as tell:
        progress = Progress(tell)
        assert list(progress.through("ab", 2)) + list(progress.through("c", 3)) == ["a", "b", "c"]
    assert "calls compared" in capsys.readouterr().err


def test_rows_are_narrow_and_whole() -> None:
    row = Discrepancy(call="c", group="g", inputs={"x": (1, 2)}, outputs={"y": (3,)}, sizes={"batch": 3})
    assert len(dataclasses.asdict(row)) == 11
    assert not {"group", "inputs", "outputs", "sizes"} & dataclasses.asdict(row).keys()
    changed = dataclasses.replace(row, call="d")
    assert vars(changed) == {**vars(row), "call": "d"}
    assert (changed.group, changed.inputs, changed.outputs, changed.sizes) == (
        "g",
        {"x": (1, 2)},
        {"y": (3,)},
        {"batch": 3},
    )
    assert (Discrepancy(call="c").inputs, Discrepancy(call="c").group) == ({}, "")


def test_html_is_escaped() -> None:
    assert "<b>" not in Discrepancies([Discrepancy(call="<b>", error="<b>")])._repr_html_()


def test_a_plan_is_a_table_of_what_applies() -> None:
    found = plan({"torch": "2.13.0", "transformers": "5.24.0"})
    ids = {item.spec.id for item in found if item.applies}
    assert {line.split()[0] for line in repr(found).splitlines()[1:-1]} == ids
    assert found._repr_html_().count("<tr>") == 1 + len(found.applying)
    assert found.summary == f"{len(found.applying)} of {len({item.spec.id for item in found})} specs apply"


def test_differences_are_drawn() -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="it draws")
    matplotlib.use("Agg")
    rows = [
        Discrepancy(call="a", absolute=1e-6, success=True),
        Discrepancy(call="b"),
        Discrepancy(call="c", absolute=1.0),
    ]
    axes = Discrepancies(rows).plot()
    right, wrong = (item.get_offsets().tolist() for item in axes.collections)
    assert (right, [place for place, _ in wrong]) == ([[0, 1e-6]], [1, 2])
    # What is infinite stands above all.
    assert wrong[0][1] > wrong[1][1] == 1.0


@pytest.mark.parametrize("name", ["Whisper", "T5"])
def test_a_plain_decoder_is_refused_with_the_line_to_write(name: str) -> None:
    model = make_encoder_decoder(name)
    observer, decoder = InputObserver(), model.get_decoder()
    with pytest.raises(ExportCompatError, match=r"with observer\(decoder, store_n_calls=4\)"):
        with observer(decoder, store_n_calls=4):
            pass
    for part in (model.get_encoder(), model, TextDecoder(model)):
        with InputObserver()(part):
            pass
    # Without a cache there is one kind of call.
    decoder.config.use_cache = False
    with observer(decoder):
        pass


def test_a_decoder_that_generates_by_itself_is_refused_beside_an_encoder_alone() -> None:
    config = transformers.BartConfig(vocab_size=64, d_model=16, decoder_layers=1, decoder_ffn_dim=32)
    model = transformers.BartForCausalLM(config).eval()
    tokens = torch.arange(4).reshape(1, 4)
    observer = InputObserver()
    with apply_patches(), observer(model):
        model.generate(tokens, max_new_tokens=3, do_sample=False)
    assert len(observer) == 3
    with apply_patches(), InputObserver()(model), pytest.raises(ExportCompatError, match=r"with observer\(decoder\):"):
        model(tokens, encoder_hidden_states=torch.ones(1, 5, model.config.hidden_size))
    with apply_patches(), InputObserver()(model):
        model(tokens, encoder_hidden_states=torch.ones(1, 5, model.config.hidden_size), use_cache=False)


def test_an_observer_without_a_model_says_how_to_name_it() -> None:
    with pytest.raises(ExportCompatError, match=r"`with observer\(model\):`"), InputObserver():
        pass


def test_what_is_not_to_be_had_is_refused() -> None:
    with pytest.raises(ExportCompatError, match="rewrite=True is not to be had here"):
        with torch_export_patches(rewrite=True):
            pass
    with pytest.raises(TypeError, match="no argument 'path_transformers'"):
        with torch_export_patches(path_transformers=True):
            pass
    with pytest.raises(ExportCompatError, match="name the argument"):
        InputObserver(value_if_missing={0: None})  # type: ignore[dict-item]


def test_nothing_but_nodes_is_applied_without_patches() -> None:
    with torch_export_patches(patch=False) as found, apply_patches() as everything:
        pass
    kinds = {item.spec.id: item.spec.kind for item in plan() if item.applies}
    assert {kinds[spec_id] for spec_id in found.report.applied} == {"pytree"}
    assert {kinds[spec_id] for spec_id in everything.applied} > {"pytree"}
    assert found(inputs := {"x": [1]}) is inputs
