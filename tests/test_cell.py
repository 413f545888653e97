"""The result file of a cell: what is kept, what is checked again, and what is refused."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix import _cell
from exportcompat.matrix._cases import CASES
from exportcompat.matrix._cell import Results, both, chosen, run_cell
from exportcompat.registry import ExportCompatError, MissingExtraError

VERSIONS = dict.fromkeys(("python", "onnx", "onnxscript", "onnxruntime"), "1.0") | {
    "torch": "2.13.0+cpu",
    "transformers": "5.23.0",
}
LLAMA = CASES["llama"]
ROW: dict[str, Any] = {"state": "patched", "problems": []}


def test_a_result_is_written_at_once_and_known_afterwards(tmp_path: Path) -> None:
    results = Results(tmp_path, VERSIONS)
    assert results.path.name == "transformers-5.23.0_torch-2.13.0.json"
    assert not results.is_current(LLAMA)
    results.add(LLAMA, ROW)
    content = json.loads(results.path.read_text())
    assert (content["schema"], content["versions"]) == (1, VERSIONS)
    assert content["cases"]["llama"]["state"] == "patched"
    assert Results(tmp_path, VERSIONS).is_current(LLAMA)
    assert not Results(tmp_path, VERSIONS).is_current(CASES["tiny_gpt"])


def test_other_versions_make_a_result_old(tmp_path: Path) -> None:
    Results(tmp_path, VERSIONS).add(LLAMA, ROW)
    assert not Results(tmp_path, {**VERSIONS, "onnx": "2.0"}).is_current(LLAMA)


@pytest.mark.parametrize("cut", [0, 1, 40, -3])
def test_a_file_that_was_cut_short_is_checked_again(tmp_path: Path, cut: int) -> None:
    results = Results(tmp_path, VERSIONS)
    results.add(LLAMA, ROW)
    results.path.write_text(results.path.read_text()[:cut])
    fresh = Results(tmp_path, VERSIONS)
    assert not fresh.is_current(LLAMA)
    fresh.add(LLAMA, ROW)
    assert Results(tmp_path, VERSIONS).is_current(LLAMA)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 99, "cases": {}}', '"text"'])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = Results(tmp_path, VERSIONS).path
    path.write_text(text)
    with pytest.raises(ExportCompatError, match="is no result file of schema 1; move it away and run again"):
        Results(tmp_path, VERSIONS)
    assert path.read_text() == text


def test_cases_are_chosen_by_patterns() -> None:
    assert [case.name for case in chosen(["llama", "gpt?"])] == ["llama", "gpt2", "gptj"]
    assert len(chosen([])) == len(CASES)
    with pytest.raises(ExportCompatError, match="no case matches 'bert'; cases: tiny_gpt, llama"):
        chosen(["llama", "bert"])


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(package: str, extra: str) -> None:
        raise MissingExtraError(f"{package} {extra}")

    monkeypatch.setattr(_cell, "require", require)
    with pytest.raises(MissingExtraError, match="torch all"):
        run_cell(tmp_path, ["llama"], jobs=1, fresh=False)


def test_a_model_that_does_not_exist_here_is_absent() -> None:
    assert both(dataclasses.replace(LLAMA, exists=lambda: False))["state"] == "absent"


def test_a_model_that_cannot_be_built_here_says_why() -> None:
    pytest.importorskip("torch", reason="a case seeds torch before it builds a model")

    def make() -> Any:
        raise TypeError("this release has a defect")

    row = both(dataclasses.replace(LLAMA, make=make, exists=lambda: True))
    assert row == {"state": "unsupported", "problems": ["TypeError: this release has a defect"]}


JOBS = {
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "hang": "import time; time.sleep(60)",
    "error": "raise RuntimeError('no')",
}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("crash", "the process ended with SIGKILL"),
        ("hang", "no outcome after 1 s"),
        ("error", "RuntimeError: no"),
    ],
)
def test_a_case_that_ends_badly_is_a_result_and_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    pytest.importorskip("transformers", reason="a cell is one of torch and transformers")
    pytest.importorskip("onnxruntime", reason="a cell needs what compares")

    def answer(case: Any) -> dict[str, Any]:
        if case is LLAMA:
            exec(JOBS[name])
        return ROW

    monkeypatch.setattr(_cell, "both", answer)
    monkeypatch.setattr(_cell, "TIMEOUT", 1)
    assert run_cell(tmp_path, ["llama", "tiny_gpt"], jobs=1, fresh=False) == 1
    (file,) = tmp_path.glob("*.json")
    cases = json.loads(file.read_text())["cases"]
    assert (cases["llama"]["state"], cases["llama"]["problems"]) == ("fails", [problem])
    assert cases["tiny_gpt"]["state"] == "patched"
