"""The table of results: shares of the cases that exist, and what does not work."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.reports import _summary
from exportcompat.matrix.reports._summary import summary
from exportcompat.registry import ExportCompatError


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
