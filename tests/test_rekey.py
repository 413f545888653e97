"""`exportcompat.matrix rekey`: results keep their keys through a change that is shown to be none."""

import json
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.__main__ import main
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.store import file_name, key

pytest.importorskip("fastjsonschema", reason="result files are checked by their schema")

VERSIONS = {"torch": "2.13.0", "transformers": "5.23.0", "onnx": "1.20", "onnxscript": "0.6", "onnxruntime": "1.24"}
OTHER = "f" * 16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the current result of one case."""
    environment = {"python": "3.11.9", "packages": [f"{name}=={text}" for name, text in VERSIONS.items()]}
    row: dict[str, Any] = {"state": "absent", "problems": [], "date": "2026-01-02", "environment": "0" * 8}
    row["key"] = key(CASES["llama"], {"python": "3.11", **VERSIONS}, row)
    where = {"schema": 2, "transformers": VERSIONS["transformers"], "torch": VERSIONS["torch"]}
    path = tmp_path / "results" / file_name("5.23.0", "2.13.0")
    path.parent.mkdir()
    path.write_text(json.dumps({**where, "environments": {"0" * 8: environment}, "cases": {"llama": row}}))
    return path.parent


def set_key(folder: Path, text: str) -> str:
    """Give the result another key, as a new way to compute keys would; return the one that it had."""
    (path,) = folder.glob("transformers-*.json")
    content = json.loads(path.read_text())
    before: str = content["cases"]["llama"]["key"]
    content["cases"]["llama"]["key"] = text
    path.write_text(json.dumps(content))
    return before


def test_the_same_code_gives_a_result_its_key(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = tmp_path / "evidence.json"
    assert main(["rekey", "--write", str(evidence), "--results", str(folder)]) == 0
    assert capsys.readouterr().out == f"{evidence}: what 1 current results rest on\n"
    wanted = set_key(folder, OTHER)
    assert main(["rekey", "--from", str(evidence), "--results", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("1 results rest on the same code")
    assert set_key(folder, OTHER) == wanted


def test_other_code_leaves_a_result_old(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = tmp_path / "evidence.json"
    main(["rekey", "--write", str(evidence), "--results", str(folder)])
    found = json.loads(evidence.read_text())
    found[file_name("5.23.0", "2.13.0")]["llama"]["case"] = "of other code"
    evidence.write_text(json.dumps(found))
    set_key(folder, OTHER)
    capsys.readouterr()
    main(["rekey", "--from", str(evidence), "--results", str(folder)])
    assert "1 of 1 rest on other code: case" in capsys.readouterr().out
    assert set_key(folder, OTHER) == OTHER


@pytest.mark.parametrize("text", [None, "", "[]", '{"a": 1}'])
def test_what_is_no_evidence_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    evidence = tmp_path / "evidence.json"
    if text is not None:
        evidence.write_text(text)
    assert main(["rekey", "--from", str(evidence), "--results", str(folder)]) == 2
    assert "rekey --write" in capsys.readouterr().err
