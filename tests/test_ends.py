"""The ends of ranges: what is asked, in which order, and what the answers mean."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from exportcompat.matrix.proofs import _probes
from exportcompat.matrix.proofs._bisect import _last, bisect
from exportcompat.matrix.proofs._probes import Answer, BisectionRuns
from exportcompat.matrix.proofs._range_verdicts import _judged, verdicts
from exportcompat.matrix.runs._driver import Options
from exportcompat.matrix.runs._environments import Environments
from exportcompat.matrix.versions._range_ends import (
    Boundary,
    admits,
    admits_newest,
    boundaries_of,
    proofs_at_boundaries,
)
from exportcompat.matrix.versions._version_axes import _table, last_patches, releases
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

SPEC = "list-cache-length"
"""A spec with a range that ends on both sides within the supported releases: >=4.45.2,<4.51."""

NEEDED, NOT_NEEDED = Answer("fails", "works"), Answer("works", "works")


class Told(BisectionRuns):
    """Answers from a function, and notes what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def ask(self, spec_id: str, case: str, found: Mapping[str, str]) -> Answer:
        self.asked.append(found["transformers"])
        result: Answer = self.answer(found)
        return result


def in_range(found: Mapping[str, str]) -> Answer:
    return NEEDED if Version("4.45.2") <= Version(found["transformers"]) < Version("4.51") else NOT_NEEDED


def test_releases_are_ordered_and_known() -> None:
    assert releases("transformers")[0] == "4.44.0"
    assert "4.46.0" not in releases("transformers")
    assert last_patches("torch")[:4] == ["2.6.0", "2.7.1", "2.8.0", "2.9.1"]
    assert (len(last_patches("transformers")), len(last_patches("torch"))) == (39, 10)


def test_releases_of_another_package() -> None:
    with pytest.raises(ExportCompatError, match=r"has no releases of 'numpy'; it has those of torch, transformers"):
        releases("numpy")


def test_the_ends_of_a_range() -> None:
    others = {"torch": "2.13.0"}
    found = [end for end in boundaries_of(SPEC) if end.package == "transformers"]
    assert found == [
        Boundary(SPEC, "transformers", "4.45.2", "4.45.1", others, ("llama",)),
        Boundary(SPEC, "transformers", "4.50.3", "4.51.0", others, ("llama",)),
    ]


def test_an_end_is_proved_where_a_proof_can_be_run() -> None:
    # No Falcon-H1 can be made in 5.4.0, the last release of the range.
    found = [end for end in boundaries_of("falcon-h1-cache-length") if end.package == "transformers"]
    assert [(end.inside, end.outside) for end in found] == [("4.53.0", "4.52.4"), ("5.3.0", "5.5.0")]
    # transformers 5.19.0, the newest of the range, cannot be imported with torch 2.6.
    ends = [end for end in boundaries_of("kimi-delta-chunks") if end.inside == "2.6.0"]
    assert [end.others for end in ends] == [{"transformers": "5.18.0"}]


def test_an_end_is_proved_beside_the_release_that_the_table_names() -> None:
    found = [end for end in boundaries_of("torch-slice-bounds") if end.package == "torch"]
    assert [(end.inside, end.others) for end in found] == [
        ("2.10.0", {"transformers": "4.57.6"}),
        ("2.11.0", {"transformers": "4.57.6"}),
    ]


@pytest.mark.parametrize("row", _table()["beside"], ids=lambda row: row["specs"][0])
def test_what_is_said_of_ends_is_about_specs_that_are_for_it(row: dict[str, Any]) -> None:
    assert row["reason"]
    for spec_id in row["specs"]:
        for name, text in row["versions"].items():
            assert any(admits(spec, name, text) for spec in default_registry() if spec.id == spec_id)


def test_variants_that_follow_each_other_have_the_ends_of_the_whole() -> None:
    found = [(end.inside, end.outside) for end in boundaries_of("rotary-frequencies") if end.package == "transformers"]
    assert found == [("4.44.0", None), (releases("transformers")[-1], None)]


def test_every_spec_has_ends() -> None:
    for spec in default_registry():
        # What is for older companions alone is tried in the cells of seasons.
        assert boundaries_of(spec.id) or not admits_newest(spec)
    assert boundaries_of("torch-onnx-index-put") == []


def test_the_cells_beside_an_end_have_its_proofs() -> None:
    for release in ("4.45.2", "4.45.1", "4.50.3", "4.51.0"):
        assert SPEC in proofs_at_boundaries()[release, "2.13.0"]["llama"]
    # A sample of its own belongs to the name of a proof.
    assert "torch-onnx-named-axes:1,5,1" in proofs_at_boundaries()["5.23.0", "2.7.0"]["llama"]


def row(without: str, state: str = "patched", problem: str = "") -> dict[str, Any]:
    return {"state": state, "proofs": {SPEC: {"without": without, "with": "works", "problem": problem}}}


@pytest.mark.parametrize(
    ("found", "is_inside", "does_hold"),
    [
        (row("fails"), True, True),
        (row("wrong"), True, True),
        (row("fails"), False, False),
        (row("works"), True, False),
        (row("works"), False, True),
        # What does not work with all specs proves nothing.
        (row("fails", "wrong"), True, False),
        ({"state": "fails"}, False, False),
        ({"state": "absent"}, False, None),
        ({"state": "absent"}, True, None),
        # What was not run is not known.
        ({"state": "patched"}, False, False),
        ({}, False, False),
    ],
)
def test_what_holds(found: dict[str, Any], is_inside: bool, does_hold: bool | None) -> None:
    assert _judged(found, SPEC, "inside" if is_inside else "outside")[1] is does_hold


def test_ends_are_judged_on_both_sides(tmp_path: Path) -> None:
    def write(release: str, found: dict[str, Any]) -> None:
        path = tmp_path / f"transformers-{release}_torch-2.13.0.json"
        path.write_text(json.dumps({"schema": 2, "environments": {}, "cases": {"llama": found}}))

    ends = [end for end in boundaries_of(SPEC) if end.package == "transformers"]
    for release in ("4.45.2", "4.50.3", "4.45.1"):
        write(release, row("fails", problem="TypeError: no"))
    write("4.51.0", row("works"))
    lines = dict(verdicts(ends, Options(tmp_path, 1, fresh=False)))
    outside = f"{SPEC}: outside its range of transformers: transformers 4.45.1, torch 2.13.0, llama: "
    assert lines.pop(f"{outside}without fails (TypeError: no), with works: DOES NOT HOLD") is False
    assert len(lines) == 3 and all(lines.values())
    # A model that is younger says nothing; inside, something has to be said.
    for release in ("4.45.1", "4.45.2"):
        write(release, {"state": "absent"})
    lines = dict(verdicts(ends, Options(tmp_path, 1, fresh=False)))
    where = "its range of transformers: transformers"
    assert lines[f"{SPEC}: outside {where} 4.45.1, torch 2.13.0, llama: absent: says nothing"] is None
    assert lines[f"{SPEC}: inside {where} 4.45.2, torch 2.13.0: no proof can be run there"] is False


@pytest.mark.parametrize("count", range(1, 12))
def test_the_walk_finds_the_last_one(count: int) -> None:
    for last in range(count):
        assert _last([str(i) for i in range(count)], lambda text, last=last: int(text) <= last) == str(last)  # type: ignore[misc]


def test_bisect_agrees_with_a_range_that_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    probes = Told(in_range)
    assert bisect(probes, SPEC, "transformers", None) == 0
    assert "needed from transformers 4.45.2 to 4.50.3; its range says 4.45.2 to 4.50.3" in capsys.readouterr().out
    assert len(probes.asked) < 14


def test_bisect_says_where_a_range_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    always = Told(lambda _: NEEDED)
    assert bisect(always, SPEC, "transformers", None) == 1
    assert f"needed from transformers 4.44.0 to {releases('transformers')[-1]}" in capsys.readouterr().out
    assert bisect(Told(lambda _: NOT_NEEDED), SPEC, "transformers", None) == 1
    assert "is not needed on transformers 4.45.2, the first release of its range" in capsys.readouterr().out


def test_an_unknown_spec_is_named() -> None:
    with pytest.raises(ExportCompatError, match="there is no spec 'nothing'; specs: "):
        boundaries_of("nothing")


VERSIONS = {"torch": "2.13.0", "transformers": "4.45.0"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Let every check answer at once; return what was checked."""
    calls: list[list[str]] = []

    def run_check(case: str, *, patched: bool, python: str, exclude: Any = ()) -> dict[str, Any]:
        calls.append([case, *exclude])
        return {"state": "fails" if exclude else "works", "problems": ["broken"] if exclude else []}

    monkeypatch.setattr(_probes, "run_check", run_check)
    monkeypatch.setattr(Environments, "python", lambda *_: "python")
    return calls


def test_an_answer_is_asked_for_once(asked: list[list[str]], tmp_path: Path) -> None:
    for _ in range(2):
        assert BisectionRuns(tmp_path, tmp_path).ask(SPEC, "llama", VERSIONS) == Answer("fails", "works", "broken")
    assert asked == [["llama", SPEC], ["llama"]]


@pytest.mark.parametrize("cut", [0, 7, -3])
def test_answers_that_were_cut_short_are_asked_for_again(asked: list[list[str]], tmp_path: Path, cut: int) -> None:
    BisectionRuns(tmp_path, tmp_path).ask(SPEC, "llama", VERSIONS)
    file = tmp_path / "answers.json"
    file.write_text(file.read_text()[:cut])
    BisectionRuns(tmp_path, tmp_path).ask(SPEC, "llama", VERSIONS)
    assert len(asked) == 4
    assert len(json.loads(file.read_text())) == 1


def test_an_answer_is_as_old_as_its_spec(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BisectionRuns(tmp_path, tmp_path).ask(SPEC, "llama", VERSIONS)
    monkeypatch.setattr(_probes, "_code", lambda *_: "changed")
    BisectionRuns(tmp_path, tmp_path).ask(SPEC, "llama", VERSIONS)
    assert len(asked) == 4


def test_without_a_wheel_there_are_known_answers_only(tmp_path: Path) -> None:
    with pytest.raises(
        ExportCompatError, match="an environment has to be made, and there is no wheel to install; give --wheel"
    ):
        BisectionRuns(tmp_path, None).ask(SPEC, "llama", VERSIONS)


def test_without_uv_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "some.whl"
    wheel.write_bytes(b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExportCompatError, match="made with uv, which is not installed; run: pip install uv"):
        BisectionRuns(tmp_path, wheel).ask(SPEC, "llama", VERSIONS)
