"""The result file of a cell: what is kept, what is checked again, and what is refused."""

import dataclasses
import gc
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.cases._catalogue import CASES, chosen
from exportcompat.matrix.checks._row import HARMED, ablate, check_case, problems_of, proved, state_of
from exportcompat.matrix.runs import _cell, _worker_pool
from exportcompat.matrix.runs._cell import run_cell
from exportcompat.matrix.runs._worker_pool import Limits
from exportcompat.matrix.store import WORKS
from exportcompat.matrix.store._results import Installed, Results, check_content, file_name, read_results
from exportcompat.registry import ExportCompatError, MissingExtraError

RESULTS = Path(__file__).resolve().parents[1] / "matrix" / "results"
PACKAGES = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "onnx": "1.0", "onnxscript": "1.0", "onnxruntime": "1.0"}
LLAMA, GPT = CASES["llama"], CASES["tiny_gpt"]
ROW: dict[str, Any] = {"state": "patched", "problems": [], "used": [], "modules": []}
FAILS: dict[str, Any] = {"state": "fails", "problems": ["TypeError: no"], "used": []}


def environment(python: str = "3.11.9", **packages: str) -> Installed:
    return Installed(python, tuple(f"{name}=={text}" for name, text in {**PACKAGES, **packages}.items()))


INSTALLED = environment()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / file_name("5.23.0", "2.13.0")


def test_a_result_is_written_at_once_and_known_afterwards(path: Path) -> None:
    results = Results(path)
    assert path.name == "transformers-5.23.0_torch-2.13.0.json"
    assert not results.is_current(LLAMA)
    results.add(LLAMA, ROW, INSTALLED)
    content = json.loads(path.read_text())
    assert (content["schema"], content["transformers"], content["torch"]) == (3, "5.23.0", "2.13.0")
    row = content["cases"]["llama"]
    assert row["state"] == "patched"
    packages = [content["strings"][number] for number in content["environments"][row["environment"]]["packages"]]
    assert "torch==2.13.0+cpu" in packages
    for installed in (INSTALLED, None):
        assert Results(path).is_current(LLAMA, installed)
        assert not Results(path).is_current(GPT, installed)


@pytest.mark.parametrize("packages", [{"onnx": "2.0"}, {"numpy": "2.0"}, {"onnx_ir": "1.0"}, {"python": "3.12.9"}])
def test_other_versions_make_a_result_old(path: Path, packages: dict[str, str]) -> None:
    Results(path).add(LLAMA, ROW, INSTALLED)
    assert not Results(path).is_current(LLAMA, environment(**packages))


@pytest.mark.parametrize("packages", [{"packaging": "2.0"}, {"python": "3.11.10"}, {"torch": "2.13.0+cu130"}])
def test_a_package_that_decides_nothing_does_not(path: Path, packages: dict[str, str]) -> None:
    Results(path).add(LLAMA, ROW, INSTALLED)
    assert Results(path).is_current(LLAMA, environment(**packages))


def test_each_result_says_what_it_was_found_in(path: Path) -> None:
    results, other = Results(path), environment(onnx="2.0")
    results.add(LLAMA, ROW, INSTALLED)
    results.add(GPT, ROW, other)
    assert Results(path).is_current(LLAMA) and Results(path).is_current(GPT)
    results.add(LLAMA, ROW, other)
    assert list(json.loads(path.read_text())["environments"]) == [other.digest]


def test_what_worked_and_does_not_is_marked_until_it_works_again(path: Path) -> None:
    def marks(*rows: dict[str, Any]) -> list[Any]:
        found = []
        for row in rows:
            # Each time as another process would.
            Results(path).add(LLAMA, row, INSTALLED)
            found.append(Results(path).rows["llama"].get("was"))
        return found

    assert marks(FAILS, ROW, FAILS, {**FAILS, "state": "wrong"}, ROW) == [None, None, "patched", "patched", None]


def test_a_file_of_the_first_schema_is_checked_again(path: Path) -> None:
    path.write_text(json.dumps({"schema": 1, "versions": PACKAGES, "cases": {"llama": {"state": "native", "key": ""}}}))
    assert not Results(path).is_current(LLAMA)


@pytest.mark.parametrize("cut", [0, 1, 40, -3])
def test_a_file_that_was_cut_short_is_checked_again(path: Path, cut: int) -> None:
    Results(path).add(LLAMA, ROW, INSTALLED)
    path.write_text(path.read_text()[:cut])
    fresh = Results(path)
    assert not fresh.is_current(LLAMA)
    fresh.add(LLAMA, ROW, INSTALLED)
    assert Results(path).is_current(LLAMA)


def test_two_runs_of_one_cell_lose_no_result(path: Path) -> None:
    first, second = Results(path), Results(path)
    first.add(LLAMA, ROW, INSTALLED)
    second.add(GPT, ROW, INSTALLED)
    first.add(CASES["bert"], ROW, INSTALLED)
    assert sorted(Results(path).rows) == ["bert", "llama", "tiny_gpt"]


def test_runs_of_one_cell_wait_for_each_other(path: Path) -> None:
    names = list(CASES)[:24]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: Results(path).add(CASES[name], ROW, INSTALLED), names))
    assert set(Results(path).rows) == set(names)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 99, "cases": {}}', '"text"'])
def test_a_file_of_somebody_else_is_left_alone(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ExportCompatError, match="is no result file of schema 3; move it away and run again"):
        Results(path)
    assert path.read_text() == text


def test_cases_are_chosen_by_patterns() -> None:
    assert [case.name for case in chosen(["llama", "gpt?"])] == ["llama", "gpt2", "gptj"]
    assert len(chosen([])) == len(CASES)
    with pytest.raises(ExportCompatError, match="no case matches 'nobody'; cases: tiny_gpt, stateful_gpt"):
        chosen(["llama", "nobody"])


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(package: str, extra: str) -> None:
        raise MissingExtraError(f"{package} {extra}")

    monkeypatch.setattr(_cell, "require", require)
    with pytest.raises(MissingExtraError, match="torch all"):
        run_cell(tmp_path, ["llama"], jobs=1, fresh=False)


def test_a_model_that_does_not_exist_here_is_absent() -> None:
    assert check_case(dataclasses.replace(LLAMA, exists=lambda: False))["state"] == "absent"


def test_a_model_that_cannot_be_built_here_says_why() -> None:
    pytest.importorskip("torch", reason="a case seeds torch before it builds a model")

    def make() -> Any:
        raise TypeError("this release has a defect")

    # A function stands for its name here, which nothing looks at before it is called.
    row = check_case(dataclasses.replace(LLAMA, make=make, exists=lambda: True))  # type: ignore[arg-type]
    assert row == {"state": "unsupported", "problems": ["TypeError: this release has a defect"]}


def test_harm_is_worse_than_no_help() -> None:
    pairs = [("works", "works"), ("fails", "works"), ("works", "wrong"), ("wrong", "fails")]
    assert [state_of(*pair) for pair in pairs] == ["native", "patched", "wrong", "fails"]


@pytest.mark.parametrize(("plain", "patched"), [("works", "wrong"), ("works", "fails")])
def test_harm_is_named_before_what_is_wrong(plain: str, patched: str) -> None:
    assert problems_of(plain, patched, ["why"]) == [HARMED, "why"]
    assert problems_of("wrong", patched, ["why"]) == ["why"]
    assert problems_of("works", "works", []) == []


def test_no_result_is_of_a_case_that_patches_have_harmed() -> None:
    harmed = [
        (cell, name)
        for cell, content in read_results(RESULTS).items()
        for name, row in content["cases"].items()
        if row.get("plain", {}).get("state") == "works" and row["state"] not in WORKS
    ]
    assert not harmed


JOBS = {
    "crash": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "hang": "import time; time.sleep(60)",
    "error": "raise RuntimeError('no')",
    "leak": "import time; kept = bytes(b'1' * (3 << 30)); time.sleep(60)",
}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("crash", "the process ended with SIGKILL"),
        ("hang", "no outcome after 5 s"),
        ("leak", "more than 2000 MB of memory"),
        ("error", "RuntimeError: no"),
    ],
)
def test_a_case_that_ends_badly_is_a_result_and_loses_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    torch = pytest.importorskip("torch", reason="a cell is one of torch and transformers")
    pytest.importorskip("transformers", reason="a cell is one of torch and transformers")
    pytest.importorskip("onnxruntime", reason="a cell needs what compares")

    def answer(case: Any) -> dict[str, Any]:
        if case is LLAMA:
            exec(JOBS[name])
        return ROW

    threads = torch.get_num_threads()
    monkeypatch.setattr(_worker_pool, "check_with_content", answer)
    limits = Limits(seconds=5 if name == "hang" else 120, megabytes=2_000)
    assert run_cell(tmp_path, ["llama", "tiny_gpt"], jobs=1, fresh=False, limits=limits) == 1
    gc.unfreeze()
    torch.set_num_threads(threads)
    (file,) = tmp_path.glob("*.json")
    cases = json.loads(file.read_text())["cases"]
    assert (cases["llama"]["state"], cases["llama"]["problems"]) == ("fails", [problem])
    assert cases["tiny_gpt"]["state"] == "patched"


def test_of_two_installed_versions_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("first", "1.0"), ("second", "2.0")):
        (tmp_path / folder / f"some_package-{version}.dist-info").mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: some-package\nVersion: {version}\n"
        (tmp_path / folder / f"some_package-{version}.dist-info" / "METADATA").write_text(text)
    for folder in ("second", "first"):
        monkeypatch.syspath_prepend(tmp_path / folder)
    assert [item for item in Installed.here().packages if "some-package" in item] == ["some-package==1.0"]


def test_proofs_are_run_once_for_what_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers", reason="a cell is one of torch and transformers")
    versions = Installed.here().versions
    proofs = {"llama": ["applied", "other", "other:1,5,1"], "tiny_gpt": ["applied"]}
    monkeypatch.setattr(_cell, "proofs_at_boundaries", lambda: {(versions["transformers"], versions["torch"]): proofs})
    monkeypatch.setattr(_worker_pool, "_preload", lambda: None)
    monkeypatch.setattr(
        _worker_pool, "check_with_content", lambda case: {**(ROW if case is LLAMA else FAILS), "applied": ["applied"]}
    )
    monkeypatch.setattr(_worker_pool, "ablate", lambda _, proof: proved("fails", problem=f"without {proof}"))
    for _ in range(2):
        assert run_cell(tmp_path, ["llama", "tiny_gpt"], jobs=1, fresh=False) == 1
    said = capsys.readouterr().out.splitlines()
    assert sorted(line.split(maxsplit=2)[2] for line in said if line.startswith("without")) == [
        "applied: fails, with it: works",
        "other: works, with it: works",
        "other:1,5,1: fails, with it: works",
    ]
    (file,) = tmp_path.glob("*.json")
    cases = check_content(file)["cases"]
    assert cases["llama"]["proofs"]["applied"] == {"without": "fails", "with": "works", "problem": "without applied"}
    assert cases["llama"]["proofs"]["other"] == {"without": "works", "with": "works", "problem": ""}
    assert "proofs" not in cases["tiny_gpt"]


def test_first_proofs_of_all_specs_are_run_when_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="a cell is one of torch and transformers")
    monkeypatch.setattr(_cell, "proofs_at_boundaries", dict)
    monkeypatch.setattr(_worker_pool, "_preload", lambda: None)
    monkeypatch.setattr(_worker_pool, "check_with_content", lambda case: {**ROW, "applied": ["torch-export-size-one"]})
    monkeypatch.setattr(_worker_pool, "ablate", lambda _, proof: proved("fails"))
    run_cell(tmp_path / "usual", ["llama"], jobs=1, fresh=False)
    run_cell(tmp_path / "all", ["llama"], jobs=1, fresh=False, proofs=True)
    usual, every = (
        check_content(next((tmp_path / name).glob("*.json")))["cases"]["llama"].get("proofs", {})
        for name in ("usual", "all")
    )
    assert not usual
    assert every["torch-export-size-one:1,5,1"]["without"] == "fails"


def test_a_proof_is_the_case_without_its_spec() -> None:
    pytest.importorskip("transformers", reason="a case is exported")
    pytest.importorskip("onnxruntime", reason="a case is compared")
    found = ablate(CASES["buffered_gpt"], "torch-export-parameter-buffer:1,5,1")
    assert (found["without"], found["with"]) == ("fails", "works")
    assert found["problem"]
    assert ablate(CASES["buffered_gpt"], "sliding-layer-full-past") == proved("works")


KILLED = """
import sys, time
from pathlib import Path
from exportcompat.matrix.runs import _cell, _worker_pool

def both(case):
    time.sleep(60 if case.name == "llama" else 0)
    return {"state": "patched", "problems": [], "used": [], "modules": []}

_worker_pool.check_with_content, _worker_pool._preload = both, lambda: None
_cell.run_cell(Path(sys.argv[1]), ["tiny_gpt", "llama"], jobs=1, fresh=False)
"""


def test_a_killed_cell_loses_the_case_in_flight_only(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="a cell is one of torch and transformers")
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("patched") for line in process.stdout)
        process.kill()
    (path,) = tmp_path.glob("*.json")
    results, installed = Results(path), Installed.here()
    assert results.is_current(GPT, installed) and not results.is_current(LLAMA, installed)


def test_a_cell_ends_when_whoever_started_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([1, 2])
    monkeypatch.setattr(_worker_pool, "_preload", lambda: None)
    monkeypatch.setattr(_worker_pool, "check_with_content", lambda case: time.sleep(60))
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    with pytest.raises(SystemExit, match="the process that started this one has ended"):
        list(_worker_pool.run_jobs([(GPT, "")], 1, Limits()))


def test_work_that_is_asked_for_twice_ends_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def ablated(_: Any, proof: str) -> dict[str, Any]:
        time.sleep(2 if proof == "slow" else 0)
        return ROW

    monkeypatch.setattr(_worker_pool, "_preload", lambda: None)
    monkeypatch.setattr(_worker_pool, "ablate", ablated)
    work = [(GPT, "slow"), (GPT, "same"), (GPT, "same"), (GPT, "same")]
    found = [item for item, _ in _worker_pool.run_jobs(work, 3, Limits())]
    assert sorted(proof for _, proof in found) == ["same", "same", "same", "slow"]
