"""What works, answered from data: `works`, and the commands `works` and `resolve`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exportcompat import Compatibility, ExportCompatError, SpecError, works
from exportcompat._cli import main
from exportcompat._dataset import SCHEMA, Dataset, _files
from exportcompat.registry import MissingExtraError

CASE = {"title": "Jamba", "task": "text-generation", "part": "", "attention": "default", "route": "dynamo"}


def result(transformers: str, torch: str, outcome: str, case: str = "jamba", **fields: Any) -> dict[str, Any]:
    place = {"case": case, "transformers": transformers, "torch": torch}
    return {**place, "outcome": outcome, "environment": 0, "date": "2026-11-26", "current": True, **fields}


RESULTS = [
    result("5.24.0", "2.15.0", "wrong", problem=0),
    result("5.24.0", "2.13.0", "native", difference=2.5e-06, calls=188),
    result("5.23.0", "2.13.0", "patched", "jamba_eager", patches=0),
    result("5.23.0", "2.13.0", "patched", patches=0),
    result("5.22.2", "2.12.1", "patched", patches=0),
    result("5.22.2", "2.12.1", "wrong", "jamba_eager"),
    result("4.57.6", "2.13.0", "absent"),
    result("4.54.1", "2.13.0", "patched", patches=0, current=False),
    result("4.54.1", "2.13.0", "fails", "jamba_script"),
    result("4.54.0", "2.9.1", "patched", patches=0),
]
SPECS = [
    {"id": "one", "requires": ["transformers>=5"], "package": "transformers", "evidence": []},
    {
        "id": "one",
        "requires": ["transformers>=4.44,<5"],
        "package": "transformers",
        "evidence": [
            {"first": "4.54.0", "last": "4.54.1", "evidence": "proved"},
            {"first": "4.55.0", "last": "4.57.6", "evidence": "same source"},
        ],
    },
    {"id": "two", "requires": ["torch>=2.14"], "package": "torch", "evidence": []},
]


def write(folder: Path, schema: int = SCHEMA) -> Path:
    """Write the files that an answer needs."""
    content = {
        "schema": SCHEMA,
        "model_type": "jamba",
        "cases": {
            "jamba": CASE,
            "jamba_eager": {**CASE, "attention": "eager"},
            "jamba_script": {**CASE, "route": "torchscript"},
        },
        "environments": [{"python": "3.11.7"}],
        "patch_sets": [["one", "two"]],
        "problems": ["call 3: off by 2"],
        "results": RESULTS,
    }
    index = {
        "schema": schema,
        "exportcompat": "0.1.0",
        "model_types": {"jamba": {}, "qwen2_5_vl": {}},
        "advisories": [],
    }
    files = {"index.json": index, "specs.json": {"specs": SPECS}, "results/jamba.json": content}
    for name, item in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(item))
    return folder


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dataset]:
    """Return files that are found as an installed package is."""
    write(tmp_path / "exportcompat_data")
    (tmp_path / "exportcompat_data" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "exportcompat_data", raising=False)
    _files.dataset.cache_clear()
    yield _files.dataset()
    _files.dataset.cache_clear()
    sys.modules.pop("exportcompat_data", None)


def test_a_pair_that_was_run_is_told(data: Dataset) -> None:
    found = works("jamba", transformers="5.24.0", torch="2.13.0")
    assert (found.outcome, found.evidence, found.does_work, found.nearest) == ("native", "run", True, ())
    assert found.results[0]["environment"] == {"python": "3.11.7"}
    assert isinstance(found, Compatibility)


def test_a_result_by_older_code_says_so(data: Dataset) -> None:
    assert works("jamba", transformers="4.54.1", torch="2.13").evidence == "older code"


def test_wrong_is_never_shown_as_anything_else(data: Dataset) -> None:
    found = works("jamba", transformers="5.24.0", torch="2.15.0")
    assert (found.outcome, found.does_work) == ("wrong", False)
    assert found.results[0]["problem"] == "call 3: off by 2"
    assert works("jamba", transformers="5.22.2", torch="2.12.1").outcome == "wrong"


def test_the_start_of_a_release_is_the_newest_of_these(data: Dataset) -> None:
    found = works("jamba", transformers="4.54", torch="2.13")
    assert (found.transformers, found.torch) == ("4.54.1", "2.13.0")
    # A whole release is that one alone.
    assert works("jamba", transformers="4.54.0", torch="2.13.0").outcome == "unknown"
    assert works("jamba", transformers="5.24.0", torch="2.13.0+cpu").outcome == "native"


def test_what_was_not_run_is_unknown_beside_what_was(data: Dataset) -> None:
    found = works("jamba", transformers="4.56.0", torch="2.13.0")
    assert (found.outcome, found.evidence, found.does_work, found.results) == ("unknown", "none", False, ())
    # `absent` tells nothing, so it is no neighbour.
    assert [(item.transformers, item.outcome) for item in found.nearest] == [
        ("5.23.0", "patched"),
        ("4.54.1", "patched"),
    ]
    # What the nearest needs is the same by content there, or is not for these versions.
    assert found.patches == {"one": "same source", "two": "not for these versions"}


def test_patches_say_what_they_rest_on(data: Dataset) -> None:
    found = works("jamba", transformers="4.54.1", torch="2.13.0")
    assert found.patches == {"one": "proved", "two": "not for these versions"}


def test_another_way_to_export_is_another_answer(data: Dataset) -> None:
    found = works("jamba", transformers="4.54.1", torch="2.13.0", route="torchscript")
    assert found.outcome == "fails"
    assert works("jamba", transformers="5.23.0", torch="2.13.0", attention="eager").results[0]["case"] == "jamba_eager"


def test_a_model_may_be_absent(data: Dataset) -> None:
    assert works("jamba", transformers="4.57.6", torch="2.13.0").outcome == "absent"


@pytest.mark.parametrize("name", ["qwen2_5_vl", "Qwen2.5-VL", "qwen2_5_vl_text"])
def test_a_type_is_found_by_other_spellings(data: Dataset, name: str) -> None:
    assert data.find_type(name) == "qwen2_5_vl"


def test_a_name_that_is_not_known_gets_a_question(data: Dataset) -> None:
    with pytest.raises(ExportCompatError, match=r"no results of the model type 'jmba'; did you mean 'jamba'"):
        works("jmba", transformers="5.24.0", torch="2.13.0")
    with pytest.raises(ExportCompatError, match=r"no such results of jamba; there are: task text-generation"):
        works("jamba", transformers="5.24.0", torch="2.13.0", task="fill-mask")
    with pytest.raises(SpecError, match=r"'newest' is not a version of torch"):
        works("jamba", transformers="5.24.0", torch="newest")


def test_without_the_data_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "exportcompat_data", None)
    _files.dataset.cache_clear()
    with pytest.raises(MissingExtraError, match=r"run: pip install 'exportcompat\[data\]'"):
        works("jamba", transformers="5.24.0", torch="2.13.0")
    for command in (["works", "jamba"], ["resolve", "jamba"]):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_other_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match=r"have the schema 2, and this release reads 1; run: pip install"):
        Dataset(write(tmp_path, schema=2))
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ExportCompatError, match=r"index.json cannot be read"):
        Dataset(tmp_path)


class TestCommands:
    """`exportcompat works` and `exportcompat resolve`."""

    def test_works_says_it_and_ends_with_0(self, data: Dataset, capsys: Any) -> None:
        assert main(["works", "jamba", "--transformers", "5.24.0", "--torch", "2.13.0"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "jamba, transformers 5.24.0, torch 2.13.0: native, works without patches"
        assert lines[3].split() == ["jamba", "native", "2.5e-06", "2026-11-26"]

    @pytest.mark.parametrize(("torch", "said"), [("2.15.0", "with wrong numbers"), ("2.16", "nobody has run it")])
    def test_works_ends_with_1_where_it_does_not(self, data: Dataset, capsys: Any, torch: str, said: str) -> None:
        assert main(["works", "jamba", "--transformers", "5.24.0", "--torch", torch]) == 1
        assert said in capsys.readouterr().err

    def test_works_says_the_age(self, data: Dataset, capsys: Any) -> None:
        assert main(["works", "jamba", "--transformers", "4.54.1", "--torch", "2.13"]) == 0
        out = capsys.readouterr().out
        assert "(run with an older code of exportcompat)" in out
        assert "1 not for these versions, 1 proved" in out

    def test_works_as_json(self, data: Dataset, capsys: Any) -> None:
        assert main(["works", "jamba", "--transformers", "4.56.0", "--torch", "2.13.0", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert (found["outcome"], found["nearest"][0]["transformers"]) == ("unknown", "5.23.0")

    def test_resolve_lists_what_works_newest_first(self, data: Dataset, capsys: Any) -> None:
        assert main(["resolve", "jamba"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "transformers==5.24.0 torch==2.13.0",
            "transformers==5.23.0 torch==2.13.0 exportcompat>=0.1.0",
            "transformers==4.54.1 torch==2.13.0 exportcompat>=0.1.0",
            "transformers==4.54.0 torch==2.9.1 exportcompat>=0.1.0",
        ]

    @pytest.mark.parametrize("bounds", ["2.9", "2.9.1", ">=2.9,<2.12"])
    def test_resolve_keeps_to_bounds(self, data: Dataset, capsys: Any, bounds: str) -> None:
        assert main(["resolve", "jamba", "--torch", bounds]) == 0
        assert capsys.readouterr().out == "transformers==4.54.0 torch==2.9.1 exportcompat>=0.1.0\n"

    def test_resolve_takes_a_folder(self, data: Dataset, capsys: Any, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"model_type": "jamba"}')
        assert main(["resolve", str(tmp_path), "--limit", "1", "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["versions"]
        assert (found["outcome"], found["requirement"]) == ("native", "transformers==5.24.0 torch==2.13.0")
        for text in ("{}", "[]", "3"):
            (tmp_path / "config.json").write_text(text)
            assert main(["resolve", str(tmp_path)]) == 2
            assert "says no model_type" in capsys.readouterr().err

    def test_resolve_finds_nothing(self, data: Dataset, capsys: Any) -> None:
        assert main(["resolve", "jamba", "--torch", "2.15"]) == 1
        assert "works on none that is asked for" in capsys.readouterr().err
        assert main(["resolve", "jamba", "--torch", "two"]) == 2
        assert "is not a version range" in capsys.readouterr().err
