"""The table of results: shares of the cases that exist, and what does not work."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exportcompat.matrix.cases import CASES
from exportcompat.matrix.reports import _summary
from exportcompat.matrix.reports._summary import overview, summary, write_overview
from exportcompat.registry import ExportCompatError

ROOT = Path(__file__).resolve().parents[1]


BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def write(folder: Path, transformers: str, torch: str, states: dict[str, str]) -> Path:
    rest = {"key": "0" * 16, "date": "2026-01-01", "environment": "0" * 8}
    cases = {name: {"state": state, "problems": [f"{name} is {state}"], **rest} for name, state in states.items()}
    installed = {"0" * 8: {"python": "3.11.9", "packages": []}}
    path = folder / f"transformers-{transformers}_torch-{torch}.json"
    path.write_text(
        json.dumps(
            {"schema": 2, "torch": torch, "transformers": transformers, "environments": installed, "cases": cases}
        )
    )
    return path


def test_shares_are_of_the_cases_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [CASES["llama"], replace(CASES["llama"], name="a")]
    monkeypatch.setattr(_summary, "cases_of", lambda cell: wanted if cell.transformers == "5.9.0" else wanted[1:])
    write(tmp_path, "5.10.4", "2.13.0", {"a": "native", "b": "patched", "c": "absent", "d": "unsupported"})
    write(tmp_path, "5.9.0", "2.13.0", {"a": "wrong", "b": "patched", "c": "fails"})
    write(tmp_path, "5.9.0", "2.6.0", {"c": "absent"})
    assert summary(tmp_path).splitlines() == [
        "| transformers | torch 2.6.0 | torch 2.13.0 |",
        "|---|---|---|",
        "| 5.9.0 |  | 1/3 (+1) |",
        "| 5.10.4 |  | 2/2 |",
    ]


def test_an_empty_folder_is_no_green_table(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="there are no results in .*; run: nox -s matrix"):
        summary(tmp_path)


@pytest.mark.parametrize("cut", [0, 10, -2])
def test_a_torn_file_is_named(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path, "5.9.0", "2.6.0", {"a": "native"})
    path.write_text(path.read_text()[:cut])
    with pytest.raises(ExportCompatError, match=r"transformers-5.9.0_torch-2.6.0.json is no whole result file"):
        summary(tmp_path)


def test_an_overview_has_minor_releases_by_tens(tmp_path: Path) -> None:
    write(tmp_path, "4.49.0", "2.6.0", {"a": "native", "b": "absent"})
    write(tmp_path, "4.57.6", "2.13.0", {"a": "patched", "b": "fails"})
    write(tmp_path, "5.2.0", "2.13.0", {"a": "patched", "b": "wrong"})
    write(tmp_path, "5.3.1", "2.13.1", {"a": "patched", "b": "unsupported"})
    torch = "3 releases of torch (2.6.0 to 2.13.1)"
    assert overview(tmp_path).splitlines() == [
        "6 results of 2 cases, wherever the release has the model, on",
        f"4 releases of transformers (4.49.0 to 5.3.1) and {torch}: 4 work, 1 fails, 1 wrong.",
        "",
        "| transformers | torch 2.6 | torch 2.13 |",
        "|---|---|---|",
        "| 4.49 | 1/1 |  |",
        "| 4.57 |  | 1/2 |",
        "| 5.2 to 5.3 |  | 2/3 |",
    ]


def test_an_overview_is_put_between_its_marks(tmp_path: Path) -> None:
    write(tmp_path, "5.2.0", "2.13.0", {"a": "patched"})
    page = tmp_path / "page.md"
    for before in ("", "what was there\n"):
        page.write_text(f"# Head\n\n{BEGIN}{before}{END}\ntail\n", "utf-8")
        write_overview(tmp_path, page)
        assert page.read_text("utf-8") == f"# Head\n\n{BEGIN}{overview(tmp_path)}\n{END}\ntail\n"


@pytest.mark.parametrize("text", ["", BEGIN, END, END + BEGIN])
def test_a_page_without_marks_stays_as_it_is(tmp_path: Path, text: str) -> None:
    write(tmp_path, "5.2.0", "2.13.0", {"a": "patched"})
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    with pytest.raises(
        ExportCompatError, match=r"page.md has not the lines <!-- results --> and <!-- end of results -->"
    ):
        write_overview(tmp_path, page)
    assert page.read_text("utf-8") == text


def test_a_page_that_is_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path, "5.2.0", "2.13.0", {"a": "patched"})
    with pytest.raises(ExportCompatError, match=r"none.md cannot be read .*; name a page that has the lines"):
        write_overview(tmp_path, tmp_path / "none.md")


def test_the_readme_says_what_the_results_say() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    found = page.partition(BEGIN)[2].partition(END)[0]
    assert found == overview(ROOT / "matrix" / "results") + "\n", "run: exportcompat matrix summary --page README.md"
