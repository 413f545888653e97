"""Cases that go by `export` find out by themselves whether what it found holds."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat.matrix.cases._by_export import compare_end_to_end, prompt
from exportcompat.matrix.cases._catalogue import CASES, find_case
from exportcompat.matrix.cases._decoder import Sample
from exportcompat.matrix.cases.multimodal import IMAGE_BY_IMAGE
from exportcompat.matrix.checks._check import check
from exportcompat.matrix.checks._row import caches_of
from exportcompat.matrix.runs._own_proofs import is_older

ALONE = {
    "granite_speech",
    "granite_docling",
    "recurrent_gemma",
    "rwkv",
    "xlnet",
    "xlstm",
    "mllama",
    "video_llama_3",
    *IMAGE_BY_IMAGE,
}
"""The models that have no case but the one by `export`.

Some have no interface of a decoder that one could bring. Of the others it is how `export` finds the sizes of their
images that is of interest.
"""
OLDER = {"lfm2_vl"}
"""The models that the case by `export` has from the zoo: those of the other case begin at a later transformers."""


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("llama", {"input_ids", "attention_mask"}), ("llava", {"input_ids", "attention_mask", "pixel_values"})],
)
def test_a_prompt_has_what_a_user_has_and_no_cache(name: str, arguments: set[str]) -> None:
    given = prompt(find_case(name).decoder())
    assert set(given) == arguments
    assert given["attention_mask"].shape == given["input_ids"].shape


def test_a_file_works_for_its_model_and_for_no_other(tmp_path: Path) -> None:
    case, path = find_case("bert_export"), tmp_path / "model.onnx"
    assert case.write is not None
    case.write(case.decoder(), path, ())
    rows = compare_end_to_end(path, case.decoder)
    assert len({row.inputs["input_ids"] for row in rows}) > 5
    assert all(row.success for row in rows), rows

    def changed() -> Any:
        subject = case.decoder()
        subject.model.embeddings.word_embeddings.weight.data *= -1.0
        return subject

    assert not any(row.success for row in compare_end_to_end(path, changed))


def test_without_patches_export_applies_none() -> None:
    outcome = check(find_case("llama_export"), Sample(), patched=False)
    assert (outcome.state, outcome.applied) == ("fails", [])
    assert "apply_patches()" in outcome.problems[0]


def test_each_has_the_models_of_the_case_that_it_stands_for() -> None:
    names = {case.name: case.name.removesuffix("_export") for case in CASES.values() if case.write}
    twice = {name: other for name, other in names.items() if other in CASES}
    assert len(twice) > 5
    assert {other for other in names.values() if other not in CASES} == ALONE
    assert all(CASES[name].make is CASES[other].make for name, other in twice.items() if other not in OLDER)


@pytest.mark.skipif(is_older(), reason="their specs begin at transformers 5.24")
@pytest.mark.parametrize("name", ["recurrent_gemma_export", "rwkv_export", "xlnet_export", "xlstm_export"])
def test_a_row_of_what_has_no_other_case_can_be_written(name: str) -> None:
    """A row has the classes of a case's caches, also where nobody brings one along."""
    assert all(":" in item for item in caches_of(CASES[name]))
