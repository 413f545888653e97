"""Results of several folders put together: which are kept, their marks, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.store._merge import merge
from exportcompat.matrix.store._results import Installed, Results, file_name
from exportcompat.registry import ExportCompatError

pytest.importorskip("fastjsonschema", reason="result files are checked by their schema")

NAME = file_name("5.23.0", "2.13.0")
OTHER = file_name("5.22.2", "2.13.0")
OLD, OLDER, NEW = "2026-01-02", "2026-01-01", "2026-01-03"

Write = Callable[..., Path]


def row(state: str = "patched", date: str = OLD, environment: str = "0" * 8, **more: Any) -> dict[str, Any]:
    return {"state": state, "problems": [], "key": "0" * 16, "date": date, "environment": environment, **more}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a result file into a folder, and returns the folder."""

    def make(folder: str, name: str = NAME, **cases: dict[str, Any]) -> Path:
        transformers, torch = name.removesuffix(".json").removeprefix("transformers-").split("_torch-")
        environments = {item["environment"]: {"python": "3.11.9", "packages": []} for item in cases.values()}
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        where = {"schema": 2, "transformers": transformers, "torch": torch}
        path.write_text(json.dumps({**where, "environments": environments, "cases": cases}))
        return path.parent

    return make


def cases_of(folder: Path, name: str = NAME) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((folder / name).read_text())["cases"]
    return found


def test_files_and_cases_are_united(tmp_path: Path, write: Write) -> None:
    shards = [write("1", llama=row()), write("2", gpt2=row(), phi=row()), write("2", OTHER, llama=row("native"))]
    into = tmp_path / "new" / "results"
    assert list(merge(shards, into)) == [
        f"{OTHER}: 1 new, 0 newer, 0 as they were",
        f"{NAME}: 3 new, 0 newer, 0 as they were",
    ]
    assert sorted(path.name for path in into.iterdir()) == [OTHER, NAME]
    assert list(cases_of(into)) == ["gpt2", "llama", "phi"]
    assert list(cases_of(into)["llama"]) == ["date", "environment", "key", "problems", "state"]
    assert cases_of(into, OTHER)["llama"]["state"] == "native"


def test_what_was_there_counts_too(tmp_path: Path, write: Write) -> None:
    into = write("into", llama=row(), phi=row(), gpt2=row())
    write("into", OTHER, llama=row())
    untouched = (into / OTHER).read_bytes()
    shard = write("1", llama=row("native", NEW), phi=row("native", OLDER), gptj=row())
    assert list(merge([shard], into)) == [f"{NAME}: 1 new, 1 newer, 2 as they were"]
    states = {name: found["state"] for name, found in cases_of(into).items()}
    assert states == {"gpt2": "patched", "gptj": "patched", "llama": "native", "phi": "patched"}
    assert (into / OTHER).read_bytes() == untouched


@pytest.mark.parametrize(("first", "second", "kept"), [(OLD, NEW, "second"), (NEW, OLD, "first"), (NEW, NEW, "second")])
def test_the_newer_result_is_kept_and_of_one_day_that_of_the_later_folder(
    tmp_path: Path, write: Write, first: str, second: str, kept: str
) -> None:
    shards = [write("1", llama=row(date=first, sample="first")), write("2", llama=row(date=second, sample="second"))]
    list(merge(shards, tmp_path / "into"))
    assert cases_of(tmp_path / "into")["llama"]["sample"] == kept


def test_only_environments_that_are_referred_to_are_kept(tmp_path: Path, write: Write) -> None:
    shards = [
        write("1", llama=row(date=OLD, environment="a" * 8), phi=row(environment="b" * 8)),
        write("2", llama=row(date=NEW, environment="c" * 8)),
    ]
    list(merge(shards, tmp_path / "into"))
    content = json.loads((tmp_path / "into" / NAME).read_text())
    assert list(content["environments"]) == ["b" * 8, "c" * 8]


@pytest.mark.parametrize(
    ("states", "was"),
    [
        (["patched", "fails"], "patched"),
        (["native", "patched", "wrong"], "patched"),
        (["native", "fails", "wrong"], "native"),
        (["fails", "fails"], None),
        (["patched", "fails", "native"], None),
        (["fails", "patched"], None),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_mark_is_not_lost_whatever_the_order_of_the_folders(
    tmp_path: Path, write: Write, states: list[str], was: str | None, is_reversed: bool
) -> None:
    shards = [write(str(day), llama=row(state, f"2026-01-0{day}")) for day, state in enumerate(states, 1)]
    list(merge(shards[::-1] if is_reversed else shards, tmp_path / "into"))
    found = cases_of(tmp_path / "into")["llama"]
    assert (found["state"], found.get("was")) == (states[-1], was)


def test_a_mark_that_a_result_brings_is_kept(tmp_path: Path, write: Write) -> None:
    shards = [write("1", llama=row("wrong", OLD)), write("2", llama=row("fails", NEW, was="native"))]
    list(merge(shards, tmp_path / "into"))
    assert cases_of(tmp_path / "into")["llama"]["was"] == "native"


def test_a_mark_that_only_the_replaced_one_has_is_kept(tmp_path: Path, write: Write) -> None:
    shards = [write("1", llama=row("wrong", OLD, was="native")), write("2", llama=row("fails", NEW))]
    list(merge(shards, tmp_path / "into"))
    assert cases_of(tmp_path / "into")["llama"]["was"] == "native"


def test_a_merged_file_is_as_a_run_writes_it_and_merging_again_changes_nothing(tmp_path: Path) -> None:
    names = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")
    installed = Installed("3.11.9", tuple(f"{name}==1.0" for name in names))
    found = {"state": "patched", "problems": [], "used": [], "modules": []}
    name = file_name("1.0", "1.0")
    for folder, cases in {"one": ["gpt2"], "two": ["llama", "gptj"], "both": ["llama", "gpt2", "gptj"]}.items():
        for case in cases:
            Results(tmp_path / folder / name).add(CASES[case], found, installed)
    shards = [tmp_path / "two", tmp_path / "one"]
    list(merge(shards, tmp_path / "into"))
    wanted = (tmp_path / "both" / name).read_bytes()
    assert (tmp_path / "into" / name).read_bytes() == wanted
    assert list(merge([*shards, tmp_path / "into"], tmp_path / "into")) == [f"{name}: 0 new, 0 newer, 3 as they were"]
    assert (tmp_path / "into" / name).read_bytes() == wanted


def damage_text(path: Path) -> None:
    path.write_text(path.read_text()[:-3])


def damage_name(path: Path) -> None:
    path.rename(path.with_name(OTHER.replace("5.22.2", "5.21.1")))


def damage_schema(path: Path) -> None:
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 1'))


def damage_environments(path: Path) -> None:
    path.write_text(path.read_text().replace('"environment": "00000000"', '"environment": "11111111"'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_text, "2/transformers-5.23.0_torch-2.13.0.json is no whole result file .*; run its cell again"),
        (damage_schema, "2/transformers-5.23.0_torch-2.13.0.json is no whole result file .*; run its cell again"),
        (damage_name, "5.21.1_torch-2.13.0.json holds the results of .*5.23.0_torch-2.13.0.json; rename it or"),
        (damage_environments, r"5.23.0_torch-2.13.0.json does not say what was .* llama \(environment 11111111\); run"),
    ],
)
def test_one_bad_file_and_nothing_is_written(
    tmp_path: Path, write: Write, damage: Callable[[Path], None], message: str
) -> None:
    # The good file is the first by name, so it would be written before the bad one is read.
    shards = [write("1", OTHER, llama=row()), write("2", llama=row())]
    damage(tmp_path / "2" / NAME)
    with pytest.raises(ExportCompatError, match=message):
        list(merge(shards, tmp_path / "into"))
    assert not (tmp_path / "into").exists()


def test_a_bad_file_to_be_replaced_is_refused_and_left(tmp_path: Path, write: Write) -> None:
    into = write("into", llama=row())
    damage_text(into / NAME)
    before = (into / NAME).read_bytes()
    with pytest.raises(ExportCompatError, match="into/transformers-.* is no whole result file"):
        list(merge([write("1", llama=row())], into))
    assert (into / NAME).read_bytes() == before


def test_a_missing_folder_is_named(tmp_path: Path, write: Write) -> None:
    shards = [write("1", llama=row()), tmp_path / "shard-7"]
    with pytest.raises(ExportCompatError, match="there is no folder .*shard-7; give the folders that"):
        list(merge(shards, tmp_path / "into"))
    assert not (tmp_path / "into").exists()


def test_one_folder_may_be_empty_but_not_all(tmp_path: Path, write: Write) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExportCompatError, match="there are no results in .*empty; run: nox -s matrix"):
        list(merge([tmp_path / "empty"], tmp_path / "into"))
    assert len(list(merge([tmp_path / "empty", write("1", llama=row())], tmp_path / "into"))) == 1


def test_all_is_written_even_if_nobody_reads_on(tmp_path: Path, write: Write) -> None:
    write("1", OTHER, llama=row())
    next(merge([write("1", llama=row())], tmp_path / "into"))
    assert len(list((tmp_path / "into").iterdir())) == 2


def test_a_file_in_the_way_is_named(tmp_path: Path, write: Write) -> None:
    (tmp_path / "into").write_text("")
    with pytest.raises(ExportCompatError, match="into is to be a folder and is a file; give another folder"):
        list(merge([write("1", llama=row())], tmp_path / "into"))


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, write: Write) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportCompatError, match=f"into/{NAME} cannot be written .*; mend that and merge again"):
        list(merge([write("1", llama=row())], tmp_path / "file" / "into"))
