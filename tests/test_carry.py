"""Results that are carried from another transformers: when they are, when they are not, and how they are shown."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.dataset._result_files import result_files
from exportcompat.matrix.dataset._unmended import unmended
from exportcompat.matrix.reports import overview, read_cells, why, write_report
from exportcompat.matrix.runs import _audit, _cell, audit, run_cell
from exportcompat.matrix.runs._worker_pool import CAPTURES
from exportcompat.matrix.store import Installed, Neighbours, Results, carried, file_name, with_code
from exportcompat.matrix.store._result_key import code_of

LLAMA, BERT = CASES["llama"], CASES["bert"]
VERSIONS = {"torch": "2.13.0", "onnx": "1.0", "onnxscript": "1.0", "onnxruntime": "1.0"}
MODULES = ["transformers.models.llama.modeling_llama"]
CONTENT = {"program": "a" * 16, "eager": "b" * 16}
RUN: dict[str, Any] = {
    "state": "patched",
    "problems": [],
    "plain": {"state": "fails", "problem": "TypeError: no", "seconds": 0.5},
    "sample": "2,5,3",
    "difference": 1e-6,
    "calls": 188,
    "seconds": 5.0,
    "total_seconds": 9.0,
    "megabytes": 500,
    "applied": [],
    "used": [],
    "modules": MODULES,
    "caches": [],
    "content": CONTENT,
}
FOUND: dict[str, Any] = {
    "content": CONTENT,
    "plain": {"state": "fails", "problems": ["TypeError: no"]},
    "patched": {"state": "works", "problems": []},
    "applied": [],
    "used": [],
    "modules": MODULES,
    "caches": [],
    "total_seconds": 2.0,
    "megabytes": 400,
}


def installed(transformers: str, **others: str) -> Installed:
    versions = {**VERSIONS, "transformers": transformers, **others}
    return Installed("3.11.9", tuple(f"{name}=={text}" for name, text in versions.items()))


def add(folder: Path, transformers: str, row: dict[str, Any] = RUN, **others: str) -> Results:
    """Write a result of Llama, as a run of its cell does."""
    here = installed(transformers, **others)
    results = Results(folder / file_name(transformers, here.versions["torch"]))
    results.add(LLAMA, with_code(row), here)
    return results


def near(folder: Path, transformers: str = "5.22.2") -> list[str]:
    """Return the releases from which Llama may be carried."""
    neighbours = Neighbours(folder / file_name(transformers, "2.13.0"), installed(transformers))
    return [item.transformers for item in neighbours.of(LLAMA)]


def taken(folder: Path, **changes: Any) -> dict[str, Any] | None:
    """Return the row of Llama on 5.22.2 if what is captured there is as in `FOUND`, but for changes."""
    here = installed("5.22.2")
    (item, *_) = Neighbours(folder / file_name("5.22.2", "2.13.0"), here).of(LLAMA)
    return carried(LLAMA, with_code({**FOUND, **changes}), item, here.versions)


def test_results_that_were_run_beside_the_same_packages_are_neighbours_the_nearest_first(tmp_path: Path) -> None:
    for release in ("5.18.0", "5.21.1", "5.23.0"):
        add(tmp_path, release)
    add(tmp_path, "5.20.0", onnx="2.0")
    add(tmp_path, "5.22.2")
    assert near(tmp_path) == ["5.23.0", "5.21.1", "5.18.0"]


def test_a_carried_result_is_no_neighbour(tmp_path: Path) -> None:
    add(tmp_path, "5.21.1", {**RUN, "carried": "5.20.0"})
    assert near(tmp_path) == []


def test_a_result_without_content_or_with_that_of_other_code_is_no_neighbour(tmp_path: Path) -> None:
    add(tmp_path, "5.21.1", {name: value for name, value in RUN.items() if name != "content"})
    path = add(tmp_path, "5.20.0").path
    path.write_text(path.read_text().replace(with_code(RUN)["content"]["code"], "0" * 16))
    assert near(tmp_path) == []


def test_an_old_result_is_no_neighbour(tmp_path: Path) -> None:
    results = add(tmp_path, "5.21.1")
    results.set_keys({"llama": "0" * 16})
    assert near(tmp_path) == []


def test_a_result_with_the_same_content_is_carried_and_says_from_where(tmp_path: Path) -> None:
    add(tmp_path, "5.21.1")
    row = taken(tmp_path)
    assert row is not None
    assert (row["state"], row["carried"], row["calls"], row["difference"]) == ("patched", "5.21.1", 188, 1e-6)
    assert (row["total_seconds"], row["megabytes"]) == (2.0, 400)
    # What was not measured is not said.
    assert "seconds" not in row and row["plain"] == {"state": "fails", "problem": "TypeError: no"}


@pytest.mark.parametrize(
    "changes",
    [
        {"content": {**CONTENT, "program": "c" * 16}},
        {"content": {**CONTENT, "eager": "c" * 16}},
        {"plain": {"state": "fails", "problems": ["TypeError: another"]}},
        {
            "plain": {"state": "works", "problems": []},
            "patched": {"state": "wrong", "problems": ["x is not as it was"]},
        },
        {"patched": {"state": "fails", "problems": ["TypeError: no"]}},
    ],
    ids=["program", "eager", "plain problem", "restoration", "patched"],
)
def test_what_is_not_the_same_is_not_carried(tmp_path: Path, changes: dict[str, Any]) -> None:
    add(tmp_path, "5.21.1")
    assert taken(tmp_path, **changes) is None


def test_a_spec_that_works_after_the_capture_has_to_be_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exportcompat.matrix.store import _carry

    add(tmp_path, "5.21.1")

    def other(case: Any, versions: Any, row: Any) -> dict[str, str]:
        more = "transformers.x:f" if target == "upstream" else "torch.x:f"
        here = {f"some wrap {more}": "1"} if versions["transformers"] == "5.22.2" else {}
        return {**code_of(case, versions, row), **here}

    monkeypatch.setattr(_carry, "code_of", other)
    target = "upstream"
    assert taken(tmp_path) is not None
    target = "torch"
    assert taken(tmp_path) is None


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], dict[str, Any]]:
    """Stand for processes: what each piece of work gives, and those that were asked for."""
    given: dict[tuple[str, str], dict[str, Any]] = {}

    def run(work: Any, _: int, __: Any) -> Iterator[Any]:
        for case, what in work:
            asked.append((case.name, what))
            yield (case, what), given[case.name, what]

    asked: list[tuple[str, str]] = []
    given["asked", ""] = {"list": asked}
    monkeypatch.setattr(_cell, "run_jobs", run)
    monkeypatch.setattr(Installed, "here", classmethod(lambda cls: installed("5.22.2")))
    monkeypatch.setattr(_cell, "require", lambda *_: None)
    return given


def cell(folder: Path, **options: Any) -> dict[str, Any]:
    run_cell(folder, ["llama"], jobs=1, fresh=False, carry=True, **options)
    return Results(folder / file_name("5.22.2", "2.13.0")).rows["llama"]


def test_a_cell_captures_and_carries(tmp_path: Path, jobs: Any, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path, "5.21.1")
    jobs["llama", CAPTURES] = FOUND
    assert cell(tmp_path)["carried"] == "5.21.1"
    assert jobs["asked", ""]["list"] == [("llama", CAPTURES)]
    assert "same program as 5.21.1" in capsys.readouterr().out


def test_a_cell_runs_what_is_another_program(tmp_path: Path, jobs: Any) -> None:
    add(tmp_path, "5.21.1")
    jobs["llama", CAPTURES] = {**FOUND, "content": {**CONTENT, "program": "c" * 16}}
    jobs["llama", ""] = RUN
    assert "carried" not in cell(tmp_path)
    assert [what for _, what in jobs["asked", ""]["list"]] == [CAPTURES, ""]


def test_a_capture_that_came_to_no_end_is_run(tmp_path: Path, jobs: Any) -> None:
    add(tmp_path, "5.21.1")
    jobs["llama", CAPTURES] = {"megabytes": 10}
    jobs["llama", ""] = RUN
    assert "carried" not in cell(tmp_path)


def test_nothing_is_captured_without_a_neighbour(tmp_path: Path, jobs: Any) -> None:
    jobs["llama", ""] = RUN
    assert cell(tmp_path)["content"]["program"] == "a" * 16
    assert jobs["asked", ""]["list"] == [("llama", "")]


def test_a_proof_at_the_end_of_a_range_is_beside_a_result_that_was_run(
    tmp_path: Path, jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "5.21.1")
    ends = {("5.22.2", "2.13.0"): {"llama": ["no-such-spec"]}}
    monkeypatch.setattr(_cell, "proofs_at_boundaries", lambda: ends)
    jobs["llama", ""] = RUN
    assert "carried" not in cell(tmp_path)


def both(folder: Path) -> Path:
    """Write a result that was run and one that is carried from it."""
    folder.mkdir(exist_ok=True)
    add(folder, "5.21.1")
    row = taken(folder)
    assert row is not None
    add(folder, "5.22.2", row)
    return folder


def test_a_report_marks_what_was_not_run(tmp_path: Path) -> None:
    results = both(tmp_path / "results")
    text = {kind: write(results, tmp_path / f"report.{kind}", kind) for kind in ("md", "json", "html")}
    marks = {record["transformers"]: record["carried"] for record in json.loads(text["json"]) if record["calls"]}
    assert marks == {"5.21.1": None, "5.22.2": "5.21.1"}
    assert "| `llama` | P= | P |" in text["md"]
    assert "1 were run; 1 are carried" in text["md"] and "= behind a letter: not run" in text["md"]
    assert "same program as ${carried}" in text["html"] and '"carried"' in text["html"]
    assert "1 of them were run, and 1 carried from another transformers" in overview(results)
    assert any("not run: same program as 5.21.1" in line for line in why(results, "llama", "5.22.2", "2.13.0"))


def write(results: Path, path: Path, kind: str) -> str:
    write_report(results, path, kind)
    return path.read_text("utf-8")


def test_a_report_without_carried_results_says_nothing_of_them(tmp_path: Path) -> None:
    add(tmp_path, "5.21.1")
    assert "carried" not in write(tmp_path, tmp_path / "report.md", "md") + overview(tmp_path)


def test_data_tells_what_was_not_run(tmp_path: Path) -> None:
    cells = read_cells(both(tmp_path))
    rows = result_files(cells, set())["llama"]["results"]
    assert [row.get("carried") for row in rows] == ["5.21.1", None]


def test_an_advisory_claims_what_was_run_alone(tmp_path: Path) -> None:
    broken = {**RUN, "state": "fails", "problems": ["TypeError: no"]}
    add(tmp_path, "5.21.1", broken)
    add(tmp_path, "5.22.2", {**broken, "carried": "5.21.1"})
    (advisory,) = unmended(read_cells(tmp_path), {"llama": "llama"}, set())
    assert [run["transformers"] for run in advisory["database_specific"]["evidence"]] == ["5.21.1"]


@pytest.mark.parametrize("state", ["patched", "wrong"])
def test_an_audit_runs_what_is_carried_and_fails_where_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    both(tmp_path)

    @contextmanager
    def process(_: str, cases: Any, options: Any, __: str) -> Iterator[Iterator[str]]:
        assert [case.name for case in cases] == ["llama"] and options.fresh and not options.carry
        add(options.results, "5.22.2", {**RUN, "state": state})
        yield iter([f"{state} llama"])

    monkeypatch.setattr(_audit, "cell_process", process)
    monkeypatch.setattr(Installed, "here", classmethod(lambda cls: installed("5.22.2")))
    assert audit(arguments(tmp_path)) == (0 if state == "patched" else 1)
    said = capsys.readouterr().out
    assert ("llama: carried from 5.21.1 as patched" in said) == (state == "wrong")


def arguments(results: Path) -> argparse.Namespace:
    return argparse.Namespace(results=results, carried=5, seed=0, jobs=1, folder=Path("unused"), wheel=None)


def test_an_audit_with_nothing_to_run_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(tmp_path, "5.21.1")
    monkeypatch.setattr(Installed, "here", classmethod(lambda cls: installed("5.21.1")))
    assert audit(arguments(tmp_path)) == 0
    assert "there is nothing to run" in capsys.readouterr().out
