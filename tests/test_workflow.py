"""The workflows: whole, pinned, and with no more rights than each job needs."""

import re
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML reads the workflow")

FOLDER = Path(__file__).parents[1] / ".github" / "workflows"
WRITES = {"deploy": {"pages": "write", "id-token": "write"}, "issue": {"issues": "write"}}


@pytest.fixture(scope="module", params=["matrix", "drift"])
def workflow(request: pytest.FixtureRequest) -> dict[Any, Any]:
    return read(request.param)


@pytest.fixture(scope="module")
def matrix() -> dict[Any, Any]:
    return read("matrix")


def read(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_it_runs_by_night_and_when_asked(workflow: dict[Any, Any]) -> None:
    # YAML 1.1 takes the word `on` for a truth.
    assert set(workflow[True]) == {"schedule", "workflow_dispatch"}
    assert workflow["concurrency"]["group"]


def test_each_job_has_a_time_limit_and_the_rights_that_it_needs(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {}
    assert all(job["timeout-minutes"] <= 340 for job in workflow["jobs"].values())
    rights = {name: job["permissions"] for name, job in workflow["jobs"].items()}
    assert rights == {name: WRITES.get(name, {"contents": "read"}) for name in workflow["jobs"]}


def test_a_job_that_may_write_checks_out_and_installs_nothing(workflow: dict[Any, Any]) -> None:
    for name in WRITES.keys() & workflow["jobs"].keys():
        text = yaml.safe_dump(workflow["jobs"][name]["steps"])
        assert not re.search("checkout|setup-python|pip install|nox", text)


def test_actions_are_pinned_to_a_major_version(steps: list[dict[str, Any]]) -> None:
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [text for text in used if not re.fullmatch(r"actions/[a-z-]+@v[0-9]+", text)] == []


def test_no_expression_is_pasted_into_a_script(steps: list[dict[str, Any]]) -> None:
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def test_jobs_and_outputs_that_are_needed_exist(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]
    for name, job in jobs.items():
        needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
        used = re.findall(r"needs\.([a-z]+)\.(?:outputs\.([a-z]+))?", yaml.safe_dump(job))
        assert {need for need, _ in used} <= set(needs) <= set(jobs), name
        assert all(output in jobs[need]["outputs"] for need, output in used if output), name


def test_one_shard_does_not_stop_the_others_and_its_results_are_kept(matrix: dict[Any, Any]) -> None:
    cells = matrix["jobs"]["cells"]
    assert cells["strategy"]["fail-fast"] is False
    assert [step["if"] for step in cells["steps"] if "upload-artifact" in step.get("uses", "")] == ["always()"]
    assert "!cancelled()" in matrix["jobs"]["report"]["if"]


def test_what_runs_commands_of_the_matrix_installs_them(matrix: dict[Any, Any]) -> None:
    # `pip install .` leaves them out of the wheel.
    assert "exportcompat matrix" in yaml.safe_dump(matrix)
    assert matrix["env"]["EXPORTCOMPAT_TOOLS"] == "1"


def test_the_documentation_that_is_published_has_the_results_of_the_night(matrix: dict[Any, Any]) -> None:
    steps = matrix["jobs"]["report"]["steps"]
    assert [step["run"].splitlines()[0] for step in steps if "nox -s docs" in step.get("run", "")] == [
        "nox -s docs -- merged"
    ]
    (upload,) = (step for step in steps if "upload-pages-artifact" in step.get("uses", ""))
    assert upload["with"]["path"] == "build/site"


def test_pre_releases_never_fail_the_run(matrix: dict[Any, Any]) -> None:
    allowed = {name: job.get("continue-on-error", False) for name, job in matrix["jobs"].items()}
    assert [name for name, is_allowed in allowed.items() if is_allowed] == ["pre"]
