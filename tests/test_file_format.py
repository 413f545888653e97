"""A result file has what rows share once, a case a line, and files of the second schema are read."""

import json
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.store._file_format import packed, text_of, unpacked
from exportcompat.matrix.store._results import check_content, file_name
from exportcompat.registry import ExportCompatError

pytest.importorskip("fastjsonschema", reason="result files are checked by their schema")

ROW: dict[str, Any] = {
    "state": "patched",
    "problems": [],
    "plain": {"state": "fails", "problem": "no graph", "seconds": 0.5},
    "applied": ["b-spec", "a-spec"],
    "used": ["a-spec"],
    "modules": ["transformers.models.llama.modeling_llama"],
    "caches": ["transformers.cache_utils:DynamicCache"],
    "key": "0" * 16,
    "date": "2026-01-01",
    "environment": "0" * 8,
}
CONTENT: dict[str, Any] = {
    "schema": 3,
    "transformers": "5.23.0",
    "torch": "2.13.0",
    "environments": {"0" * 8: {"python": "3.11.7", "packages": ["torch==2.13.0", "transformers==5.23.0"]}},
    "cases": {"llama": ROW, "mistral": {**ROW, "used": ["b-spec"]}},
}


def test_what_is_written_is_what_is_read() -> None:
    found = unpacked(json.loads(text_of(packed(CONTENT))))
    assert {name: found[name] for name in CONTENT} == CONTENT
    assert packed(found) == packed({**CONTENT, "strings": found["strings"]})


def test_another_row_is_a_line_and_new_texts_are_appended() -> None:
    before = text_of(packed(CONTENT))
    strings = json.loads(before)["strings"]
    added = {**ROW, "used": ["new-spec", "a-spec"]}
    after = text_of(packed({**CONTENT, "strings": strings, "cases": {**CONTENT["cases"], "qwen2": added}}))
    gone = [line for line in before.splitlines() if line.rstrip(",") not in after.replace(",\n", "\n").splitlines()]
    assert gone == []
    assert len(after.splitlines()) == len(before.splitlines()) + 2
    assert json.loads(after)["strings"] == [*strings, "new-spec"]


def test_a_file_of_the_second_schema_is_read(tmp_path: Path) -> None:
    path = tmp_path / file_name("5.23.0", "2.13.0")
    path.write_text(json.dumps({**CONTENT, "schema": 2}))
    found = check_content(path)
    assert (found["cases"], found["environments"]) == (CONTENT["cases"], CONTENT["environments"])


@pytest.mark.parametrize("damage", [{"strings": []}, {"cases": {"llama": {**ROW, "used": ["a-spec"]}}}, {"cases": []}])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    path = tmp_path / file_name("5.23.0", "2.13.0")
    path.write_text(json.dumps({**packed(CONTENT), **damage}))
    with pytest.raises(ExportCompatError, match="is no whole result file .*; run its cell again"):
        check_content(path)
