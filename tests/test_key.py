"""The key of a result: what makes it old, and what does not."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from exportcompat import patches
from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.cases._causal_lm_models import SETTINGS
from exportcompat.matrix.store import _result_key
from exportcompat.matrix.store._result_key import key

VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}
LLAMA = CASES["llama"]
ROW: dict[str, Any] = {"state": "patched", "used": ["torch-sdpa-masked-rows"]}
MODELS, CACHES = "transformers.models", "transformers.cache_utils"
Change = Callable[[str, str, str], None]


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    """Copy the specs, and return a function that changes a text in one module of the copy."""
    folder = tmp_path / "patches"
    shutil.copytree(patches.__path__[0], folder)
    monkeypatch.setattr(_result_key, "_path", lambda name: Path(folder, *name.split(".")).with_suffix(".py"))

    def change(name: str, old: str, new: str) -> None:
        path = Path(folder, *name.split(".")).with_suffix(".py")
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")
        forget()

    forget()
    yield change
    forget()


def forget() -> None:
    for function in (_result_key._applying, _result_key._definition, _result_key._neighbours, _result_key._source):
        function.cache_clear()


@pytest.mark.parametrize(
    "name", ["torch_onnx.sdpa_masked_rows", "toolkit.tracing"], ids=["its source", "what it imports"]
)
def test_a_spec_that_was_used_makes_a_result_old(change: Change, name: str) -> None:
    before = key(LLAMA, VERSIONS, ROW)
    change(name, "return ", "return not ")
    assert key(LLAMA, VERSIONS, ROW) != before


def applying(monkeypatch: pytest.MonkeyPatch, *specs: tuple[str, str]) -> None:
    found = [(spec_id, (target,), "toolkit.tracing") for spec_id, target in specs]
    monkeypatch.setattr(_result_key, "_applying", lambda *versions: found)


@pytest.mark.parametrize("other", [("another-id", "pkg:function"), ("torch-sdpa", "pkg:other")])
def test_one_more_spec_or_another_target_does(monkeypatch: pytest.MonkeyPatch, other: tuple[str, str]) -> None:
    applying(monkeypatch, ("torch-sdpa", "pkg:function"))
    before = key(LLAMA, VERSIONS, ROW)
    applying(monkeypatch, other)
    assert key(LLAMA, VERSIONS, ROW) != before


@pytest.mark.parametrize(
    ("found", "other", "own"),
    [
        (
            {"modules": [f"{MODELS}.llama.modeling_llama"]},
            f"pytree({MODELS}.qwen2_5_vl.modeling_qwen2_5_vl:Cache)",
            f"{MODELS}.llama.modeling_llama:LlamaModel.forward",
        ),
        ({"caches": [f"{CACHES}:DynamicCache"]}, f"pytree({CACHES}:StaticCache)", f"pytree({CACHES}:DynamicCache)"),
    ],
    ids=["models", "caches"],
)
def test_a_spec_that_cannot_be_reached_does_not(
    found: dict[str, Any], other: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {**ROW, **found}
    applying(monkeypatch)
    before, unknown = key(LLAMA, VERSIONS, row), key(LLAMA, VERSIONS, ROW)
    applying(monkeypatch, ("another-id", other))
    assert key(LLAMA, VERSIONS, row) == before
    # A result that does not say what it met depends on everything, and each on what it used.
    assert key(LLAMA, VERSIONS, ROW) != unknown
    assert key(LLAMA, VERSIONS, {**row, "used": ["another-id"]}) != before
    applying(monkeypatch, ("another-id", own))
    assert key(LLAMA, VERSIONS, row) != before


def test_a_spec_that_was_not_used_does_not(change: Change) -> None:
    before, broken = key(LLAMA, VERSIONS, ROW), key(LLAMA, VERSIONS, {"state": "fails", "used": []})
    change("attention.alibi_slice", "return ", "return not ")
    assert key(LLAMA, VERSIONS, ROW) == before
    # What a broken export would reach is not known.
    assert key(LLAMA, VERSIONS, {"state": "fails", "used": []}) != broken


def test_comments_texts_and_ranges_do_not(change: Change) -> None:
    before = key(LLAMA, VERSIONS, ROW)
    change("torch_onnx.sdpa_masked_rows", "SPECS = (", "# A reason.\n\nSPECS = (")
    change("torch_onnx.sdpa_masked_rows", "Symptom: ", "Symptom: often, ")
    change("torch_onnx.sdpa_masked_rows", "SPECS = (", "SPECS = (\n    # One more.\n")
    assert key(LLAMA, VERSIONS, ROW) == before


def test_versions_and_cases_do() -> None:
    before = key(LLAMA, VERSIONS, ROW)
    assert before == key(LLAMA, dict(reversed(VERSIONS.items())), ROW)
    assert before == key(dataclasses.replace(LLAMA, title="Another title"), VERSIONS, ROW)
    assert before != key(LLAMA, {**VERSIONS, "torch": "2.14.0"}, ROW)
    others = [CASES["tiny_gpt"], CASES["llama_eager"], dataclasses.replace(LLAMA, exclude=("rotary",))]
    others.append(dataclasses.replace(LLAMA, make=partial(other_make, "llama", None)))
    assert len({before, *(key(case, VERSIONS, ROW) for case in others)}) == 5


def test_what_export_goes_through_makes_old_what_goes_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other cases bring their own axes and names, and do not depend on it."""
    whole, source = CASES["llama_export"], _result_key._source
    before = key(whole, VERSIONS, ROW), key(LLAMA, VERSIONS, ROW)
    _result_key._definition.cache_clear()
    monkeypatch.setattr(
        _result_key, "_source", lambda path: "changed" if path.name == "_alignment.py" else source(path)
    )
    after = key(whole, VERSIONS, ROW), key(LLAMA, VERSIONS, ROW)
    _result_key._definition.cache_clear()
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)


def test_settings_do(monkeypatch: pytest.MonkeyPatch) -> None:
    before, other = key(LLAMA, VERSIONS, ROW), key(CASES["gemma"], VERSIONS, ROW)
    monkeypatch.setattr(_result_key, "SETTINGS", {**SETTINGS, "llama": ("Llama", "Llama", {"hidden_size": 48})})
    forget()
    assert key(LLAMA, VERSIONS, ROW) != before
    assert key(CASES["gemma"], VERSIONS, ROW) == other
    forget()


def test_a_model_that_is_not_there_depends_on_no_spec(change: Change) -> None:
    row = {"state": "absent"}
    before = key(LLAMA, VERSIONS, row)
    change("torch_onnx.sdpa_masked_rows", "return ", "return not ")
    assert key(LLAMA, VERSIONS, row) == before


def other_make(*arguments: Any) -> Any:
    raise NotImplementedError(arguments)
