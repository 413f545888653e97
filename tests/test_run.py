"""`nox -s matrix`: what is run, what is not run again, what is said, and what is no success."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exportcompat._cli import main as command
from exportcompat.matrix.__main__ import main
from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.checks._row import proved
from exportcompat.matrix.runs import _driver, _matrix
from exportcompat.matrix.runs._driver import Options, plan_task, regressions, results_of, run_tasks
from exportcompat.matrix.runs._environments import Environments, InstallError
from exportcompat.matrix.store import _results
from exportcompat.matrix.versions._cells import Cell

pytest.importorskip("fastjsonschema", reason="the report checks the result files")

OLD, NEW = Cell("4.44.2", "2.13.0"), Cell("5.23.0", "2.15.0")
LLAMA, GPT = CASES["llama"], CASES["tiny_gpt"]

CELL = """#!{python}
# Stands for the interpreter of an environment: finds out nothing, and writes it down.
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.store._results import Installed, Results
place, arguments = Path(sys.argv[0]).parent, sys.argv[1:]
if (place / "refuses").exists():
    sys.exit("exportcompat.matrix: error: no such thing")
folder = Path(arguments[arguments.index("--results") + 1])
cases = arguments[arguments.index("--jobs") + 2:]
found = dict(item.split("-", 1) for item in place.name.split("_"))
installed = Installed("3.11.9", tuple(f"{{k}}=={{v}}" for k, v in {{**found, "onnx": "1", "onnxscript": "1",
    "onnxruntime": "1"}}.items()))
results = Results(folder / f"transformers-{{found['transformers']}}_torch-{{found['torch']}}.json")
for name in cases:
    if name.startswith("--"):
        continue
    state = (place.parent / "state").read_text()
    row = {{"state": state, "problems": [] if state == "patched" else ["TypeError: no"], "used": []}}
    results.add(CASES[name], row, installed)
    print(f"{{state}} {{name}} 1.0 s", flush=True)
"""


class Stubs(Environments):
    """Makes environments that find out nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, None)
        self.folder = folder
        self.dropped: list[str] = []
        self.broken: tuple[str, ...] = ()
        folder.mkdir()
        self.say("patched")

    def say(self, state: str) -> None:
        (self.folder / "state").write_text(state)

    def python(self, found: Mapping[str, str]) -> str:
        if found["transformers"] in self.broken:
            raise InstallError("uv pip install failed: no such release")
        place = self.folder / "_".join(f"{name}-{found[name]}" for name in sorted(found))
        place.mkdir(exist_ok=True)
        script = place / "python"
        script.write_text(CELL.format(python=sys.executable, path=[item for item in sys.path if item]))
        script.chmod(0o755)
        return str(script)

    def drop(self, package: str, version: str) -> None:
        self.dropped.append(version)
        super().drop(package, version)


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    made = Stubs(tmp_path / "cells")
    monkeypatch.setattr(_matrix, "Environments", lambda *_: made)
    return made


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(tmp_path / "results", jobs=1, fresh=False)


def run(tmp_path: Path, *arguments: str) -> int:
    places = ["--results", str(tmp_path / "results"), "--report", str(tmp_path / "page.html")]
    return main(["run", "--transformers", "4.44.2", "--torch", "2.13", "--case", "llama", *places, *arguments])


def test_what_is_known_is_not_run_again(stubs: Stubs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    first = capsys.readouterr().out
    assert "1 cells, 1 results: 0 are known, 1 to run" in first
    assert "[cell 1/1, case 1/1] transformers 4.44.2, torch 2.13.0: patched llama" in first
    assert "nothing got worse" in first and f"report: {tmp_path / 'page.html'}" in first
    assert "Llama" in (tmp_path / "page.html").read_text("utf-8")
    # Nothing can be found out any more, and nothing has to be.
    stubs.say("fails")
    assert run(tmp_path) == 0
    assert "1 are known, 0 to run" in capsys.readouterr().out
    assert run(tmp_path, "--fresh") == 1
    assert "transformers 4.44.2, torch 2.13.0, llama: was patched, is fails" in capsys.readouterr().out


def test_what_got_worse_stays_an_error_until_it_is_better(stubs: Stubs, tmp_path: Path) -> None:
    assert run(tmp_path) == 0
    stubs.say("wrong")
    assert [run(tmp_path, "--fresh"), run(tmp_path)] == [1, 1]
    stubs.say("patched")
    assert run(tmp_path, "--fresh") == 0


def test_a_cell_in_which_nothing_was_checked_is_an_error(
    stubs: Stubs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stubs.say("absent")
    assert run(tmp_path) == 1
    assert "transformers 4.44.2, torch 2.13.0: nothing was checked" in capsys.readouterr().out


def test_one_torch_after_the_other_is_installed_and_dropped(stubs: Stubs, options: Options) -> None:
    tasks = [plan_task(cell, [LLAMA, GPT], options) for cell in (OLD, NEW)]
    run_tasks(tasks, stubs, options)
    assert stubs.dropped == ["2.13.0", "2.15.0"]
    assert [place.name for place in stubs.folder.iterdir()] == ["state"]
    assert all(results_of(cell, options.results).is_current(GPT) for cell in (OLD, NEW))


def test_a_changed_spec_runs_its_cells_only(stubs: Stubs, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks([plan_task(cell, [GPT], options) for cell in (OLD, NEW)], stubs, options)
    known = _results.Results.is_current
    # As if the source of a spec for the older cell had changed.
    monkeypatch.setattr(
        _results.Results, "is_current", lambda self, case: "4.44.2" not in self.path.name and known(self, case)
    )
    assert [len(plan_task(cell, [GPT], options).todo) for cell in (OLD, NEW)] == [1, 0]


def test_a_case_that_lacks_a_proof_is_run(stubs: Stubs, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tasks([plan_task(cell, [LLAMA], options) for cell in (OLD, NEW)], stubs, options)
    proofs = {(NEW.transformers, NEW.torch): {"llama": ["one", "two"]}}
    monkeypatch.setattr(_driver, "proofs_at_ends", lambda: proofs)
    assert [len(plan_task(cell, [LLAMA, GPT], options).todo) for cell in (OLD, NEW)] == [1, 2]
    for proof in ("one", "two"):
        assert plan_task(NEW, [LLAMA], options).todo == [LLAMA]
        results_of(NEW, options.results).add_proof(LLAMA, proof, proved("fails"))
    assert plan_task(NEW, [LLAMA], options).todo == []
    # A new row knows nothing of what was proved with the old one.
    run_tasks([plan_task(NEW, [LLAMA], replace(options, fresh=True))], stubs, options)
    assert plan_task(NEW, [LLAMA], options).todo == [LLAMA]


def test_what_cannot_be_installed_is_a_result_and_tried_again(
    stubs: Stubs, options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    stubs.broken = ("4.44.2",)
    run_tasks([plan_task(cell, [LLAMA], options) for cell in (OLD, NEW)], stubs, options)
    row = results_of(OLD, options.results).rows["llama"]
    assert (row["state"], row["problems"]) == ("uninstallable", ["uv pip install failed: no such release"])
    assert results_of(NEW, options.results).rows["llama"]["state"] == "patched"
    assert plan_task(OLD, [LLAMA], options).todo == [LLAMA]


def test_what_was_found_survives_a_failed_installation(stubs: Stubs, options: Options, tmp_path: Path) -> None:
    assert run(tmp_path) == 0
    stubs.broken = ("4.44.2",)
    assert run(tmp_path, "--fresh") == 0
    assert results_of(OLD, options.results).rows["llama"]["state"] == "patched"


def test_a_cell_that_ends_early_says_why_and_loses_no_other(
    stubs: Stubs, options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [plan_task(cell, [LLAMA], options) for cell in (OLD, NEW)]
    stubs.python(OLD.pins)
    (stubs.folder / "torch-2.13.0_transformers-4.44.2" / "refuses").touch()
    run_tasks(tasks, stubs, options)
    said = "transformers 4.44.2, torch 2.13.0: the cell ended early, with status 1: exportcompat.matrix: error: no such"
    assert said in capsys.readouterr().out
    assert results_of(NEW, options.results).is_current(LLAMA)
    assert "transformers 4.44.2, torch 2.13.0: no result of today's source for llama" in regressions(tasks, options)


def test_the_list_is_for_people_and_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--list") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["4.44.2", "2.13.0", "1", "1"]
    assert run(tmp_path, "--list", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"transformers": "4.44.2", "torch": "2.13.0", "cases": 1, "todo": 1}]


def test_the_time_left_is_said(stubs: Stubs, options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    run_tasks([plan_task(OLD, [LLAMA, GPT], options)], stubs, options)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[cell 1/1, case 0/2] transformers 4.44.2, torch 2.13.0: making")
    assert "case 1/2, " in lines[1] and " s left]" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--case", "nobody"], "no case matches 'nobody'"),
        (["--shard", "9"], "'9' is no shard"),
        (["--transformers", "9.9"], "no cell has transformers 9.9"),
    ],
)
def test_bad_choices_are_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["matrix", "run", "--list", *arguments]) == 2
    assert f"exportcompat matrix: error: {message}" in capsys.readouterr().err


def test_without_a_wheel_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 2
    assert "there is no wheel to install; give --wheel" in capsys.readouterr().err


def test_pre_releases_never_fail_the_run(
    stubs: Stubs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stubs, "newest", lambda: stubs.python(vars(NEW)), raising=False)
    stubs.say("fails")
    assert run(tmp_path, "--pre") == 0
    assert "fails llama" in capsys.readouterr().out

    def newest() -> str:
        raise InstallError("uv pip install failed: no such release")

    monkeypatch.setattr(stubs, "newest", newest)
    assert run(tmp_path, "--pre") == 0
    assert "no such release" in capsys.readouterr().out
