"""Lanes: results that tell what came of an export, what they rest on, and the page that is made of them."""

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix._fork_server import NoResultError
from exportcompat.matrix.cases import find_case
from exportcompat.matrix.lanes import LANES, find_lane, run_lanes, write_page
from exportcompat.matrix.lanes import _driver as driver
from exportcompat.matrix.lanes import _result as result
from exportcompat.matrix.lanes._driver import read_results
from exportcompat.matrix.lanes._page import page_of
from exportcompat.matrix.store import own_source
from exportcompat.matrix.store._dependencies import Dependencies, Part
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "matrix" / "lanes" / "results.jsonl"

Half = dict[str, Any]


def exported(stage: str = "", problem: str = "", **fields: Any) -> Half:
    found = {"stage": stage, "problem": problem, "changes": [], "seconds": 1.0, "used": [], "modules": [], "caches": []}
    return {**found, "higher_order": [], **fields}


def compared(*problems: str, difference: float | None = 0.0) -> Half:
    return {"problems": list(problems), "difference": difference, "calls": 3}


def arguments(results: Path, **fields: Any) -> argparse.Namespace:
    wanted = {"lane": [], "case": [], "fresh": False, "list": False, "timeout": 5}
    return argparse.Namespace(results=results, **{**wanted, **fields})


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"torch": "2.13.0", "transformers": "5.24.0"}
    for module in (result, driver):
        monkeypatch.setattr(module, "versions_of", lambda lane: found)


def state(monkeypatch: pytest.MonkeyPatch, steps: list[Half | Exception]) -> dict[str, Any]:
    """Return the result of a case whose steps, without patches and then with them, give these."""
    rest = iter(steps)

    def run(*_: Any) -> Half:
        found = next(rest)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(result, "run_forked", run)
    return result.check_lane(find_lane("torch-export"), find_case("llama"), 5)


@pytest.mark.usefixtures("versions")
class TestStates:
    """What a result is called."""

    def test_right_in_both(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert state(monkeypatch, [exported(), compared(), exported(), compared()])["state"] == "native"

    def test_right_with_patches_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = state(monkeypatch, [exported(), compared("off by 3", difference=3.0), exported(), compared()])
        assert (row["state"], row["without"]["state"], row["without"]["difference"]) == ("patched", "wrong", 3.0)

    def test_harm_is_no_native(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = state(monkeypatch, [exported(), compared(), exported(), compared("off by 3")])
        assert row["state"] == "wrong"

    def test_a_model_that_is_not_as_it_was_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = state(monkeypatch, [exported(), compared(), exported(changes=["torch.where is moved"]), compared()])
        assert (row["state"], row["with"]["problems"]) == ("wrong", ["torch.where is moved"])

    def test_what_stops_in_the_capture_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        stopped = exported("capture", "no")
        assert state(monkeypatch, [stopped, stopped])["state"] == "fails"

    def test_what_the_lane_refuses_is_a_matter_of_the_lane(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = exported("convert", "no such operator")
        assert state(monkeypatch, [exported("capture", "no"), refused])["state"] == "upstream-cannot"

    def test_an_operator_that_patches_bring_in_is_a_matter_of_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        refused = exported("convert", "no such operator", higher_order=["scan"])
        assert state(monkeypatch, [exported("convert", "no"), refused])["state"] == "fails"

    def test_a_process_that_dies_is_a_result(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = state(monkeypatch, [NoResultError("the process ended with status -11"), exported(), compared()])
        assert (row["state"], row["without"]["problems"]) == ("patched", ["the process ended with status -11"])


@pytest.mark.usefixtures("versions")
class TestRuns:
    """Where the command goes on from."""

    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        found: list[str] = []

        def check(lane: Any, case: Any, timeout: float) -> dict[str, Any]:
            found.append(f"{lane.name} {case.name}")
            row = {"lane": lane.name, "case": case.name, "state": "native", "versions": result.versions_of(lane)}
            row |= {"without": {"state": "works"}, "with": {"state": "works", "used": [], "modules": [], "caches": []}}
            return {**row, "key": result.key_of(lane, case, row)}

        monkeypatch.setattr(driver, "check_lane", check)
        return found

    def test_only_what_is_not_known_is_run(self, tmp_path: Path, ran: list[str]) -> None:
        path = tmp_path / "results.jsonl"
        run_lanes(arguments(path, lane=["torch-export"], case=["llama"]))
        run_lanes(arguments(path, lane=["torch-export"], case=["llama", "mixtral"]))
        assert ran == ["torch-export llama", "torch-export mixtral"]
        assert sorted(read_results(path)) == [("torch-export", "llama"), ("torch-export", "mixtral")]

    def test_other_versions_make_a_result_old(
        self, tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen = arguments(tmp_path / "results.jsonl", lane=["torch-export"], case=["llama"])
        run_lanes(chosen)
        monkeypatch.setattr(driver, "versions_of", lambda lane: {"torch": "2.14.0", "transformers": "5.24.0"})
        run_lanes(chosen)
        assert len(ran) == 2

    def test_names_that_match_nothing_are_errors(self, tmp_path: Path) -> None:
        with pytest.raises(ExportCompatError, match="no lane matches vino; lanes: torch-export, "):
            run_lanes(arguments(tmp_path / "none", lane=["vino"]))
        with pytest.raises(ExportCompatError, match="no case matches bert; cases of these lanes: llama, "):
            run_lanes(arguments(tmp_path / "none", case=["bert"]))

    def test_what_cannot_be_run_here_is_left_out_unless_it_is_named(
        self, tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def versions_of(lane: Any) -> dict[str, str]:
            if lane.name != "torch-export":
                raise ExportCompatError(f"lane {lane.name!r} needs a tool")
            return {"torch": "2.13.0", "transformers": "5.24.0"}

        monkeypatch.setattr(driver, "versions_of", versions_of)
        run_lanes(arguments(tmp_path / "results.jsonl", case=["llama"]))
        assert ran == ["torch-export llama"]
        assert "left out: lane 'olive' needs a tool\n" in capsys.readouterr().out
        with pytest.raises(ExportCompatError, match="lane 'olive' needs a tool"):
            run_lanes(arguments(tmp_path / "results.jsonl", lane=["olive"], case=["llama"]))


def test_what_a_lane_needs_is_said_before_anything_is_run() -> None:
    with pytest.raises(ExportCompatError, match="there is no lane 'opnvino'; did you mean 'openvino'"):
        find_lane("opnvino")


def test_the_page_is_made_of_the_results(tmp_path: Path) -> None:
    page = tmp_path / "lanes.md"
    write_page(RESULTS, page)
    again = "python -m exportcompat.matrix lanes --page docs/lanes.md"
    assert page.read_text("utf-8") == (ROOT / "docs" / "lanes.md").read_text("utf-8"), f"run: {again}"


def test_the_page_shows_harm_and_where_an_export_stopped() -> None:
    half: dict[str, Any] = {"stage": "", "problems": [], "difference": 1e-6, "seconds": 1.0, "higher_order": []}
    row: dict[str, Any] = {"lane": "openvino", "case": "llama", "state": "fails", "versions": {"openvino": "1"}}
    row |= {"without": {**half, "state": "works"}, "with": {**half, "state": "fails", "stage": "convert"}}
    row["with"] |= {"problems": ["no | here"], "difference": None, "higher_order": ["scan"]}
    page = page_of({("openvino", "llama"): row})
    assert "**Right without patches alone:** Llama." in page
    assert "| Llama | works | fails (convert) |  | `scan` |" in page and "- Llama: `no \\| here`" in page


class TestCoreAten:
    """Which specs put operators into a graph that a backend need not take."""

    def test_records_say_what_the_code_of_a_replacement_leads_to(self) -> None:
        found = higher_order([spec.replacement for spec in default_registry()])
        wrong = [(spec.id, spec.requires, found[spec.replacement]) for spec in default_registry()]
        assert [
            item for item, spec in zip(wrong, default_registry(), strict=True) if item[2] != {*spec.higher_order}
        ] == []
        assert {"scan"} in found.values()

    def test_results_hold_no_other_operators(self) -> None:
        known = {spec.id: set(spec.higher_order) for spec in default_registry()}
        for row in read_results(RESULTS).values():
            brought = set(row["with"]["higher_order"]) - set(row["without"].get("higher_order", ()))
            assert brought <= set().union(*(known.get(name, set()) for name in row["with"]["used"]))


_OPERATORS = {"scan": "_higher_order_ops.scan", "cond": "torch.cond", "while_loop": "while_loop"}
"""Higher-order operators of torch, and what is in the source of whoever calls them."""


def higher_order(replacements: list[str]) -> dict[str, set[str]]:
    """Return the higher-order operators that the code of each factory leads to."""
    tree = own_source()
    names = list(dict.fromkeys(replacements))
    roots = [Part(tree.definition(*name.split(":"))) for name in names]
    # In the text of a part `<n>` is the part that comes as number n.
    texts = [text for _, text in Dependencies(tree).walk(roots)]
    links = [[int(number) for number in re.findall(r"<(\d+)>", text)] for text in texts]
    own = [{operator for operator, word in _OPERATORS.items() if word in text} for text in texts]
    return {name: set().union(*(own[index] for index in reached(links, first))) for first, name in enumerate(names)}


def reached(links: list[list[int]], first: int) -> set[int]:
    found, rest = set[int](), [first]
    while rest:
        index = rest.pop()
        if index not in found and index < len(links):
            found.add(index)
            rest += links[index]
    return found


def test_lanes_have_what_the_page_needs() -> None:
    for lane in LANES.values():
        assert lane.snippet.count("\n") <= 8 and "apply_patches()" in lane.snippet and lane.how_dynamic
        assert all(find_case(name) for name in lane.cases)
