"""Seasons: found from the dates of an index, kept in the table, and run as cells with pins."""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exportcompat._drift._package_index import File, offered
from exportcompat._extras import parse_toml
from exportcompat.matrix.cases import chosen
from exportcompat.matrix.runs import _cell, _driver, _matrix
from exportcompat.matrix.runs._environments import Environments
from exportcompat.matrix.runs._season_results import linear_problem, result_path
from exportcompat.matrix.runs._worker_pool import Limits
from exportcompat.matrix.store._results import Results
from exportcompat.matrix.versions import _find_seasons, _version_axes
from exportcompat.matrix.versions._cells import ANYWHERE, all_cells, season_cells
from exportcompat.matrix.versions._find_seasons import find_seasons, write_seasons
from exportcompat.registry import COMPANIONS, ExportCompatError

DAYS = {
    "torch": {"2.6.0": "2025-01-29", "2.7.0": "2025-04-23", "2.7.1": "2025-06-04"},
    "transformers": {"4.44.2": "2024-08-22", "4.48.3": "2025-02-07", "4.50.0": "2025-03-21", "4.53.0": "2025-06-26"},
    "onnxscript": {"0.2.1": "2025-02-26", "0.2.2": "2025-03-03", "0.3.1": "2025-06-26"},
    "onnx-ir": {"0.1.3": "2025-06-26"},
    "onnx": {"1.17.0": "2024-10-01", "1.18.0": "2025-05-12"},
    "onnxruntime": {"1.20.1": "2024-11-21", "1.22.0": "2025-05-09"},
    # The number of a release tells which is the newest, not its day.
    "protobuf": {"5.29.3": "2025-01-08", "4.25.6": "2025-01-24", "6.31.1": "2025-05-28", "6.33.0rc1": "2025-05-30"},
    "numpy": {"2.2.3": "2025-02-13", "2.3.0": "2025-06-07"},
}


def wheel(package: str, version: str, day: str, tag: str = "cp311-cp311-manylinux_2_28_x86_64", **facts: Any) -> File:
    name = f"{package.replace('-', '_')}-{version}-{tag}.whl"
    return File(name, f"https://index.test/{name}", uploaded=f"{day}T10:00:00.5Z" if day else "", **facts)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[File]]:
    """Return the files of an index by package, which the command sees."""
    files = {name: [wheel(name, *item) for item in days.items()] for name, days in DAYS.items()}
    monkeypatch.setattr(_find_seasons, "offered", lambda _, package: files[package])
    known = {"torch": ["2.6.0", "2.7.0", "2.7.1"], "transformers": ["4.44.2", "4.48.3", "4.50.0", "4.53.0"]}
    monkeypatch.setattr(_find_seasons, "releases", lambda package: known[package])
    monkeypatch.setattr(
        _find_seasons, "last_patches", lambda package: [text for text in known[package] if text != "2.7.0"]
    )
    return files


def test_a_season_is_what_was_newest_a_month_after_torch(index: dict[str, list[File]]) -> None:
    old, new = find_seasons("https://index.test/simple")
    assert (old.name, str(old.until), old.transformers) == ("2.6", "2025-02-28", ("4.48.3", "4.44.2"))
    assert old.versions == {
        "torch": "2.6.0",
        "onnxscript": "0.2.1",
        "onnx": "1.17.0",
        "onnxruntime": "1.20.1",
        "protobuf": "5.29.3",
        "numpy": "2.2.3",
    }
    assert (new.name, new.transformers) == ("2.7", ("4.53.0", "4.44.2"))
    assert list(new.versions) == ["torch", *COMPANIONS]
    assert [new.versions[name] for name in ("torch", "onnx-ir", "protobuf")] == ["2.7.1", "0.1.3", "6.31.1"]


@pytest.mark.parametrize(
    "file",
    [
        wheel("numpy", "2.2.4", "2025-02-14", "cp312-cp312-manylinux_2_28_x86_64"),
        wheel("numpy", "2.2.4", "2025-02-14", "cp311-cp311-win_amd64"),
        wheel("numpy", "2.2.4", "2025-02-14", "cp311-cp311-manylinux_2_28_aarch64"),
        wheel("numpy", "2.2.4", "2025-02-14", requires_python=">=3.12"),
        wheel("numpy", "2.2.4", "2025-02-14", is_yanked=True),
        wheel("numpy", "2.2.4rc1", "2025-02-14"),
        File("numpy-2.2.4.tar.gz", "", uploaded="2025-02-14T10:00:00Z"),
        File("numpy.txt", "", uploaded="2025-02-14T10:00:00Z"),
    ],
    ids=lambda file: f"{file.name} {file.requires_python}{file.is_yanked}",
)
def test_what_cannot_be_installed_does_not_count(index: dict[str, list[File]], file: File) -> None:
    index["numpy"].append(file)
    assert next(find_seasons("https://index.test/simple")).versions["numpy"] == "2.2.3"


@pytest.mark.parametrize("tag", ["py3-none-any", "cp38-abi3-manylinux2014_x86_64", "py2.py3-none-any"])
def test_wheels_for_several_pythons_count(index: dict[str, list[File]], tag: str) -> None:
    index["numpy"].append(wheel("numpy", "2.2.4", "2025-02-14", tag))
    assert next(find_seasons("https://index.test/simple")).versions["numpy"] == "2.2.4"


def test_an_index_without_dates_is_refused(index: dict[str, list[File]]) -> None:
    index["onnx"].append(wheel("onnx", "1.19.0", ""))
    with pytest.raises(ExportCompatError, match=r"does not say when onnx-1\.19\.0.* was uploaded \(PEP 700\)"):
        list(find_seasons("https://user:secret@index.test/simple"))


def test_a_torch_that_the_index_lacks_is_named(index: dict[str, list[File]]) -> None:
    del index["torch"][0]
    with pytest.raises(ExportCompatError, match=r"^https://index\.test/simple has no torch 2\.6\.0 for Python 3\.11$"):
        list(find_seasons("https://user:secret@index.test/simple"))


def test_the_client_reads_dates(tmp_path: Path) -> None:
    page = tmp_path / "numpy" / "index.html"
    page.parent.mkdir()
    page.write_text('<a href="numpy-1.0.tar.gz">1.0</a>', "utf-8")
    (file,) = offered(tmp_path.as_uri(), "numpy")
    assert (file.uploaded, file.requires_python) == ("", "")
    from exportcompat._drift._package_index import _json_files

    row = {"filename": "a-1.0.tar.gz", "url": "a", "upload-time": "2025-01-29T10:00:00Z", "requires-python": ">=3.10"}
    (file,) = _json_files("https://index.test/", json.dumps({"meta": {"api-version": "1.1"}, "files": [row]}).encode())
    assert (file.uploaded, file.requires_python) == ("2025-01-29T10:00:00Z", ">=3.10")


TABLE = '[cells]\ntorch = "2.13.0"\n\n[torch]\nreleases = [\n    "2.6.0",\n]\n'


def test_the_seasons_are_written_behind_the_table_and_replaced(index: dict[str, list[File]], tmp_path: Path) -> None:
    table = tmp_path / "axes.toml"
    table.write_text(TABLE, "utf-8")
    lines = list(write_seasons(table, "https://index.test/simple"))
    assert lines[0].startswith("2.6: transformers 4.48.3, 4.44.2; torch 2.6.0, onnxscript 0.2.1, onnx 1.17.0")
    first = table.read_text("utf-8")
    assert first.startswith(TABLE)
    rows = parse_toml(first)["seasons"]
    assert [row["name"] for row in rows] == ["2.6", "2.7"]
    assert (rows[0]["python"], str(rows[0]["until"])) == ("3.11", "2025-02-28")
    index["onnx"].append(wheel("onnx", "1.17.1", "2025-02-01"))
    list(write_seasons(table, "https://index.test/simple"))
    assert table.read_text("utf-8") == first.replace('onnx = "1.17.0"', 'onnx = "1.17.1"')


def test_what_stands_behind_the_seasons_is_not_lost(index: dict[str, list[File]], tmp_path: Path) -> None:
    table = tmp_path / "axes.toml"
    table.write_text(TABLE, "utf-8")
    list(write_seasons(table, "https://index.test/simple"))
    text = table.read_text("utf-8") + '\n[transformers]\nreleases = ["4.44.2"]\n'
    table.write_text(text, "utf-8")
    with pytest.raises(ExportCompatError, match="has something behind the seasons"):
        list(write_seasons(table, "https://index.test/simple"))
    assert table.read_text("utf-8") == text


def test_every_torch_has_a_season() -> None:
    minors = [".".join(text.split(".")[:2]) for text in _version_axes.last_patches("torch")]
    assert list(_version_axes.seasons()) == minors
    for row in _version_axes.seasons().values():
        assert row["torch"] in _version_axes.releases("torch")
        assert set(row["transformers"]) <= set(_version_axes.releases("transformers"))


def test_a_season_is_a_cell_with_pins() -> None:
    row = _version_axes.season("2.6")
    cells = season_cells("2.6")
    assert [cell.transformers for cell in cells] == sorted(row["transformers"])
    assert cells[0].pins == {
        "transformers": cells[0].transformers,
        "torch": row["torch"],
        **{name: row[name] for name in COMPANIONS if name in row},
    }
    assert "onnx-ir" not in cells[0].pins
    assert str(cells[0]).endswith("torch 2.6.0, season 2.6")
    assert {cell.season for cell in season_cells("all")} == set(_version_axes.seasons())
    # What is known of today's cells stays: they have no season, and no pins but the two.
    assert all(cell.pins == {"transformers": cell.transformers, "torch": cell.torch} for cell in all_cells())


def test_an_unknown_season_is_named() -> None:
    with pytest.raises(ExportCompatError, match=r"axes\.toml has no season '1\.13'; it has 2\.6, 2\.7"):
        season_cells("1.13")


def test_results_of_a_season_have_a_file_of_their_own(tmp_path: Path) -> None:
    assert result_path(tmp_path, "4.48.3", "2.6.0", "") == tmp_path / "transformers-4.48.3_torch-2.6.0.json"
    found = result_path(tmp_path, "4.48.3", "2.6.0", "2.6")
    assert found == tmp_path / "seasons" / "transformers-4.48.3_torch-2.6.0_season-2.6.json"
    assert result_path(tmp_path, "4.48.3", "2.6.0", "2.6", "3.11") == found
    other = result_path(tmp_path, "4.48.3", "2.6.0", "2.6", "3.12")
    assert other == found.with_name("transformers-4.48.3_torch-2.6.0_season-2.6_python-3.12.json")


@pytest.fixture
def arguments(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(
        season="2.6",
        all=False,
        pre=False,
        torch=None,
        transformers=None,
        shard=None,
        case=[ANYWHERE],
        jobs=1,
        carry=False,
        fresh=False,
        list=False,
        json=False,
        folder=tmp_path / "cells",
        wheel=None,
        results=tmp_path / "results",
        report=tmp_path / "matrix.html",
    )


def test_a_season_is_listed(arguments: argparse.Namespace, capsys: pytest.CaptureFixture[str]) -> None:
    arguments.list = arguments.json = True
    assert _matrix.run_matrix(arguments) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["season"], row["torch"], row["cases"], row["todo"]) for row in rows] == [("2.6", "2.6.0", 1, 1)] * 2


def test_the_environment_of_a_season_has_its_pins(
    arguments: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, begun = list[dict[str, str]](), list[str]()

    def python(_: Any, found: dict[str, str]) -> str:
        made.append(found)
        return "python"

    @contextmanager
    def process(_: str, cases: Sequence[Any], __: Any, season: str) -> Iterator[Iterable[str]]:
        begun.append(season)
        yield [f"native {case.name}" for case in cases]

    monkeypatch.setattr(Environments, "python", python)
    monkeypatch.setattr(_driver, "cell_process", process)
    tasks = [_driver.plan_task(cell, [], _driver.Options(arguments.results, 1, False)) for cell in season_cells("2.6")]
    (case,) = chosen([ANYWHERE])
    tasks = [_driver.Task(task.cell, [case], [case]) for task in tasks]
    _driver.run_tasks(tasks, Environments(arguments.folder, None), _driver.Options(arguments.results, 1, False))
    assert made == [cell.pins for cell in season_cells("2.6")]
    assert begun == ["2.6", "2.6"]


def test_where_upstream_exports_nothing_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Any] = []

    def jobs(work: Sequence[Any], *_: Any) -> Iterable[Any]:
        asked.extend(work)
        return iter(())

    monkeypatch.setattr(_cell, "require", lambda *_: None)
    monkeypatch.setattr(_cell, "run_jobs", jobs)
    monkeypatch.setattr(_cell, "linear_problem", lambda: "upstream itself cannot export a linear layer")
    for _ in range(2):
        # It is said again each time: whoever runs cells waits for a line.
        assert _cell.run_cell(tmp_path, [ANYWHERE], jobs=1, fresh=False, limits=Limits(), season="2.6") == 1
    assert asked == []
    (path,) = tmp_path.glob("seasons/*_season-2.6.json")
    row = Results(path).rows[ANYWHERE]
    assert (row["state"], row["problems"]) == ("uninstallable", ["upstream itself cannot export a linear layer"])


def test_a_linear_layer_exports_here() -> None:
    pytest.importorskip("onnxscript")
    assert linear_problem() == ""


def test_what_a_linear_layer_fails_with_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from exportcompat.matrix.runs import _season_results

    monkeypatch.setattr(_season_results, "_LINEAR", "raise TypeError('Expected an int, got a boolean.')")
    assert linear_problem() == (
        "upstream itself cannot export a linear layer with these packages: TypeError: Expected an int, got a boolean."
    )
