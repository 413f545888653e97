"""The key of a result: what makes it old, and what does not."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from exportcompat.matrix.cases import CASES, call
from exportcompat.matrix.store import _result_key, key
from exportcompat.matrix.store._dependencies import own_source
from exportcompat.patches import default_registry
from exportcompat.registry import PatchingSpec

VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0"}
LLAMA = CASES["llama"]
ROW: dict[str, Any] = {"state": "patched", "used": ["torch-sdpa-masked-rows"]}
MODELS, CACHES = "transformers.models", "transformers.cache_utils"
MASKED_ROWS, *_ = default_registry().variants("torch-sdpa-masked-rows")
Change = Callable[[str, str, str], None]


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Change:
    """Return a function that changes a text in a module of ours, as the key sees it."""

    def change(module: str, old: str, new: str) -> None:
        module = f"exportcompat.{module}"
        tree = own_source()
        path = tree.path(module)
        assert path is not None
        text = path.read_text("utf-8")
        assert old in text
        edited = tree.edited(module, text.replace(old, new))
        monkeypatch.setattr(_result_key, "own_source", lambda: edited)

    return change


def spec(spec_id: str, target: str) -> PatchingSpec:
    """Return a spec with the replacement of a real one."""
    kind: Any = "pytree" if target.startswith("pytree") else "wrap"
    return dataclasses.replace(MASKED_ROWS, id=spec_id, targets=(target,), kind=kind)


def applying(monkeypatch: pytest.MonkeyPatch, *specs: PatchingSpec) -> None:
    monkeypatch.setattr(_result_key, "_applying", lambda versions: list(specs))


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("patches.torch_onnx.sdpa_masked_rows", "return ", "return not "),
        ("patches.toolkit.tracing", "return ", "return not "),
        # Nothing would be compared any more.
        ("_verification._onnx_file", "return {name: torch", "return {} and {name: torch"),
        ("_verification._discrepancy", "return ", "return not "),
        ("registry._engine", "return ", "return not "),
        ("matrix.cases.causal_lm", '"hidden_size": 32', '"hidden_size": 48'),
        ("matrix.checks._row", "_SHOWN = 3", "_SHOWN = 4"),
    ],
)
def test_what_a_result_rests_on_makes_it_old(change: Change, module: str, old: str, new: str) -> None:
    before = key(LLAMA, VERSIONS, ROW)
    change(module, old, new)
    assert key(LLAMA, VERSIONS, ROW) != before


@pytest.mark.parametrize("name", ["llava", "gemma3_image", "sew", "lfm2", "falcon_h1", "bert", "whisper_decoder"])
def test_so_it_is_for_every_kind_of_case(change: Change, name: str) -> None:
    case = CASES[name]
    before = key(case, VERSIONS, ROW)
    change("_verification._onnx_file", "return {name: torch", "return {} and {name: torch")
    assert key(case, VERSIONS, ROW) != before


@pytest.mark.parametrize("name", ["llava", "gemma3_image", "sew"])
def test_sizes_that_models_share_make_them_old(change: Change, name: str) -> None:
    before = key(CASES[name], VERSIONS, ROW)
    change("matrix.cases.causal_lm", '"hidden_size": 32', '"hidden_size": 48')
    assert key(CASES[name], VERSIONS, ROW) != before


@pytest.mark.parametrize(("name", "is_old"), [("lfm2", True), ("falcon_h1", True), ("llama", False)])
def test_a_class_of_some_cases_makes_them_old(change: Change, name: str, is_old: bool) -> None:
    before = key(CASES[name], VERSIONS, ROW)
    change("matrix.cases._causal_lm_models", "return super().empty_cache(batch)", "raise ValueError")
    assert (key(CASES[name], VERSIONS, ROW) != before) == is_old


def test_a_setting_makes_its_own_case_old(change: Change) -> None:
    before, other = key(CASES["phi3_longrope"], VERSIONS, ROW), key(LLAMA, VERSIONS, ROW)
    change("matrix.cases.causal_lm", '"short_factor": [1.0', '"short_factor": [1.5')
    assert key(CASES["phi3_longrope"], VERSIONS, ROW) != before
    assert key(LLAMA, VERSIONS, ROW) == other


@pytest.mark.parametrize("other", [spec("another-id", "pkg:function"), spec("torch-sdpa", "pkg:other")])
def test_one_more_spec_or_another_target_does(monkeypatch: pytest.MonkeyPatch, other: PatchingSpec) -> None:
    applying(monkeypatch, spec("torch-sdpa", "pkg:function"))
    before = key(LLAMA, VERSIONS, ROW)
    applying(monkeypatch, other)
    assert key(LLAMA, VERSIONS, ROW) != before


def test_the_order_in_which_specs_apply_does(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = spec("first", "pkg:function"), spec("second", "pkg:function")
    applying(monkeypatch, *specs)
    before = key(LLAMA, VERSIONS, ROW)
    applying(monkeypatch, *specs[::-1])
    assert key(LLAMA, VERSIONS, ROW) != before


@pytest.mark.parametrize(
    ("found", "other", "own"),
    [
        (
            {"modules": [f"{MODELS}.llama.modeling_llama"]},
            f"{MODELS}.qwen2_5_vl.modeling_qwen2_5_vl:Model.forward",
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
    applying(monkeypatch, spec("another-id", other))
    assert key(LLAMA, VERSIONS, row) == before
    # A result that does not say what it met depends on everything, and each on what it used.
    assert key(LLAMA, VERSIONS, ROW) != unknown
    assert key(LLAMA, VERSIONS, {**row, "used": ["another-id"]}) != before
    applying(monkeypatch, spec("another-id", own))
    assert key(LLAMA, VERSIONS, row) != before


def test_of_a_spec_that_was_not_used_only_the_factory_counts(change: Change) -> None:
    before, broken = key(LLAMA, VERSIONS, ROW), key(LLAMA, VERSIONS, {"state": "fails", "used": []})
    change("patches.attention.alibi_slice", "is_traced(", "not is_traced(")
    assert key(LLAMA, VERSIONS, ROW) == before
    # What a broken export would reach is not known.
    assert key(LLAMA, VERSIONS, {"state": "fails", "used": []}) != broken


def test_comments_texts_and_ranges_do_not(change: Change) -> None:
    before = key(LLAMA, VERSIONS, ROW)
    change(
        "patches.torch_onnx.sdpa_masked_rows",
        "SPECS = variants(",
        "# A reason.\n\nSPECS = variants(\n    # One more.\n",
    )
    change("patches.toolkit.tracing", "Say whether", "Tell whether")
    assert key(LLAMA, VERSIONS, ROW) == before


def test_versions_and_cases_do() -> None:
    before = key(LLAMA, VERSIONS, ROW)
    assert before == key(LLAMA, dict(reversed(VERSIONS.items())), ROW)
    for unimportant in ({"title": "Another title"}, {"everywhere": False}, {"shown": False}):
        assert before == key(dataclasses.replace(LLAMA, **unimportant), VERSIONS, ROW)
    assert before != key(LLAMA, {**VERSIONS, "torch": "2.14.0"}, ROW)
    others = [CASES["tiny_gpt"], CASES["llama_eager"], dataclasses.replace(LLAMA, exclude=("rotary",))]
    others.append(dataclasses.replace(LLAMA, make=call("_causal_lm_models:make_own_cache", "llama", None)))
    others.append(dataclasses.replace(LLAMA, is_captured=False))
    assert len({before, *(key(case, VERSIONS, ROW) for case in others)}) == 6


def test_what_export_goes_through_makes_old_what_goes_by_it(change: Change) -> None:
    """The other cases bring their own axes and names, and do not depend on it."""
    whole = CASES["llama_export"]
    before = key(whole, VERSIONS, ROW), key(LLAMA, VERSIONS, ROW)
    change("_observer._alignment", "return ", "return not ")
    after = key(whole, VERSIONS, ROW), key(LLAMA, VERSIONS, ROW)
    assert (after[0] == before[0], after[1] == before[1]) == (False, True)


def test_a_model_that_is_not_there_depends_on_no_spec(change: Change) -> None:
    row = {"state": "absent"}
    before = key(LLAMA, VERSIONS, row)
    change("patches.torch_onnx.sdpa_masked_rows", "return ", "return not ")
    assert key(LLAMA, VERSIONS, row) == before
