"""The files of `exportcompat-data`: made of results, checked by a schema, and honest about their age."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from exportcompat._dataset import Dataset
from exportcompat.matrix.__main__ import main
from exportcompat.matrix.cases import CASES, parse_proof
from exportcompat.matrix.checks._row import proved
from exportcompat.matrix.dataset import _folder, _spec_data
from exportcompat.matrix.dataset._advisories import advisories
from exportcompat.matrix.dataset._case_facts import _TASKS, facts_of, model_type_of
from exportcompat.matrix.dataset._proof_runs import runs_without
from exportcompat.matrix.dataset._result_files import types_of
from exportcompat.matrix.dataset._unmended import unmended
from exportcompat.matrix.reports._tables import read_cells
from exportcompat.matrix.store._results import Installed, Results, file_name
from exportcompat.patches import default_registry
from exportcompat.registry import ExportCompatError

fastjsonschema = pytest.importorskip("fastjsonschema", reason="what is written is checked with it")

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"onnx": "1.2.0", "onnxscript": "0.7.0", "onnxruntime": "1.3.0", "onnx_ir": "1.1.0", "numpy": "2.4.6"}
PLAIN = {"state": "fails", "problem": "TypeError: no", "seconds": 1.0}


def add(folder: Path, case: str, transformers: str, torch: str, state: str = "patched", **fields: Any) -> Path:
    """Add a result, with all that a run writes."""
    versions = {"transformers": transformers, "torch": f"{torch}+cpu", **PACKAGES}
    installed = Installed("3.11.7", tuple(f"{name}=={text}" for name, text in versions.items()))
    model = f"transformers.models.{case.partition('_')[0]}.modeling_x"
    found = {"difference": 2.5e-6, "calls": 188, "used": ["dynamic-cache-pytree"], "plain": PLAIN}
    row = {"state": state, "problems": [], "modules": ["transformers.models.auto.modeling_auto", model]}
    path = folder / file_name(transformers, torch)
    Results(path).add(CASES[case], {**row, **(found if state in ("patched", "wrong") else {}), **fields}, installed)
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with five results of two models: one is wrong, one is old, and one model is absent."""
    folder = tmp_path_factory.mktemp("results")
    add(folder, "llama", "5.24.0", "2.13.0")
    add(folder, "llama_eager", "5.24.0", "2.13.0", "wrong", problems=["call 3: off by 2"], was="patched")
    path = add(folder, "llama", "4.57.6", "2.13.0")
    path.write_text(path.read_text("utf-8").replace(Results(path).rows["llama"]["key"], "0" * 16), "utf-8")
    path = add(folder, "mixtral_beyond", "4.47.1", "2.12.0")
    Results(path).add_proof(CASES["mixtral_beyond"], "rotary-table-length", proved("wrong", problem="no index 16"))
    add(folder, "llama", "4.47.1", "2.13.0", "absent")
    return folder


@pytest.fixture(scope="module")
def made(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files that are made of them, which no test changes."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        # With all releases it takes seconds.
        patch.setattr(_spec_data, "releases", lambda _: ["4.44.0", "4.47.1", "5.24.0"])
        list(_folder.write_dataset(kept, folder))
    return folder


@pytest.fixture
def results(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the results, from which no specs are made, since that takes seconds."""
    monkeypatch.setattr(_folder, "spec_data", lambda *_: [])
    return Path(shutil.copytree(kept, tmp_path / "results"))


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text("utf-8"))


def test_results_are_there_with_what_is_known_of_them(made: Path) -> None:
    content = read(made, "results/llama.json")
    new, wrong, old, absent = content["results"]
    assert [new["outcome"], wrong["outcome"], old["outcome"], absent["outcome"]] == [
        *("patched", "wrong"),
        *("patched", "absent"),
    ]
    assert (new["transformers"], new["torch"], new["difference"], new["calls"]) == ("5.24.0", "2.13.0", 2.5e-6, 188)
    assert content["patch_sets"][new["patches"]] == ["dynamic-cache-pytree"]
    assert content["problems"][new["plain_problem"]] == "TypeError: no"
    assert content["problems"][wrong["problem"]] == "call 3: off by 2" and wrong["was"] == "patched"
    # A local part is no other release, and old names of packages are the same packages.
    versions = content["environments"][new["environment"]]
    assert (versions["torch"], versions["onnx-ir"], versions["python"]) == ("2.13.0", "1.1.0", "3.11.7")
    assert "difference" not in absent
    assert content["cases"]["llama_eager"]["attention"] == "eager"
    assert content["cases"]["llama"] == {
        "title": "Llama",
        "task": "text-generation",
        "part": "",
        "attention": "default",
        "route": "dynamo",
    }


def test_a_result_by_older_code_is_marked(made: Path) -> None:
    ages = {
        (item["case"], item["transformers"]): item["current"] for item in read(made, "results/llama.json")["results"]
    }
    assert ages == {
        ("llama", "5.24.0"): True,
        ("llama_eager", "5.24.0"): True,
        ("llama", "4.57.6"): False,
        ("llama", "4.47.1"): True,
    }
    index = read(made, "index.json")
    assert (index["results"], index["current"]) == (5, 4)


def test_the_schema_describes_every_file(made: Path) -> None:
    schema = read(made, "schema.json")
    kinds = {"advisories": "advisory", "badges": "badge", "results": "results"}
    for path in made.rglob("*.json"):
        if path.name != "schema.json":
            kind = kinds.get(path.parent.name, path.stem)
            fastjsonschema.compile({**schema, "$ref": f"#/definitions/{kind}"})(json.loads(path.read_text("utf-8")))


def test_what_does_not_fit_the_schema_is_not_written(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_folder, "badge", lambda *_: {"schemaVersion": 2})
    with pytest.raises(ExportCompatError, match=r"badges/llama.json does not fit dataset.schema.json"):
        list(_folder.write_dataset(results, tmp_path / "data"))
    assert not (tmp_path / "data").exists()


def test_a_folder_of_something_else_is_left_alone(results: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    with pytest.raises(ExportCompatError, match=r"is there and has mine.txt; name another folder"):
        list(_folder.write_dataset(results, other))
    assert [path.name for path in other.iterdir()] == ["mine.txt"]


def test_a_type_that_is_gone_leaves_no_file(results: Path, tmp_path: Path) -> None:
    out = tmp_path / "data"
    list(_folder.write_dataset(results, out))
    (out / "results" / "gone.json").write_text("{}")
    list(_folder.write_dataset(results, out))
    assert not (out / "results" / "gone.json").exists() and (out / "results" / "llama.json").exists()


def test_the_version_is_that_of_the_schema_and_the_newest_result(results: Path, tmp_path: Path) -> None:
    made = _folder.files_of(read_cells(results), set())["index.json"]
    assert made["version"] == f"1.{made['date'].replace('-', '')}"
    assert main(["dataset", "--results", str(results), "--out", str(tmp_path / "x"), "--version", "1.2"]) == 0
    assert (tmp_path / "x" / "VERSION").read_text() == "1.2\n"


def test_specs_have_what_is_known_of_each_release(made: Path) -> None:
    specs = read(made, "specs.json")["specs"]
    assert [spec["id"] for spec in specs] == [spec.id for spec in default_registry()]
    (spec,) = [spec for spec in specs if spec["id"] == "rotary-table-length"]
    assert spec["evidence"][0]["first"] == "4.44.0" and spec["evidence"][-1]["last"] == "4.47.1"
    # Its target is found by a word, so that no source of it is in the lock file: what was run is what is known.
    assert [span["evidence"] for span in spec["evidence"]] == ["not proved", "proved"]
    (spec,) = [spec for spec in specs if spec["id"] == "git-token-positions"]
    assert {span["evidence"] for span in spec["evidence"]} <= {"proved", "same source"}


@pytest.mark.parametrize(
    ("case", "folders", "found"),
    [
        ("jamba_eager", ["auto", "jamba"], "jamba"),
        ("mistral3", ["auto", "mistral", "mistral3", "pixtral"], "mistral3"),
        ("cohere2_vision", ["auto", "cohere2", "cohere2_vision", "siglip"], "cohere2_vision"),
        ("granite_hybrid", ["auto", "granitemoehybrid"], "granitemoehybrid"),
        ("joined_gpt2", ["auto", "gpt2", "vision_encoder_decoder", "vit"], "vision_encoder_decoder"),
        ("squeezed_gpt", ["auto"], ""),
    ],
)
def test_the_model_type_of_a_case(case: str, folders: list[str], found: str) -> None:
    modules = [f"transformers.models.{name}.modeling_{name}" for name in folders]
    assert model_type_of(case, [modules, [*modules, "transformers.models.other.modeling_other"]]) == found


def test_every_case_has_a_task() -> None:
    for case in CASES:
        assert facts_of(case, "", "")["task"], f"its family has none in {sorted(_TASKS)}"
    assert facts_of("qwen2_vl_vision", "", "qwen2_vl")["part"] == "vision encoder"
    assert facts_of("aya_vision", "", "aya_vision")["task"] == "image-text-to-text"
    assert facts_of("whisper_decoder", "", "whisper")["part"] == "decoder"
    assert facts_of("llama_export", "", "llama")["route"] == "exportcompat.export"
    assert facts_of("gone_script", "Gone", "")["route"] == "torchscript"


class TestAdvisories:
    """Known breakages."""

    def test_have_what_osv_requires(self, made: Path) -> None:
        _, name = read(made, "index.json")["advisories"]
        advisory = read(made, f"advisories/{name}.json")
        assert advisory["id"] == name == "EXPORTCOMPAT-rotary-table-length"
        assert advisory["modified"].endswith("T00:00:00Z")
        (affected,) = advisory["affected"]
        assert affected["package"] == {"ecosystem": "PyPI", "name": "transformers"}
        assert affected["ranges"] == [{"type": "ECOSYSTEM", "events": [{"introduced": "4.44"}, {"fixed": "4.48"}]}]
        assert affected["versions"] == ["4.44.0", "4.47.1"]
        assert advisory["database_specific"]["outcome"] == "wrong"
        assert advisory["database_specific"]["evidence"][0]["problem"] == "no index 16"

    def test_claim_nothing_that_was_not_run(self, results: Path) -> None:
        cells = read_cells(results)
        for cell in cells:
            for row in cell.rows.values():
                row.pop("proofs", None)
                row.pop("plain", None)
        assert _folder.files_of(cells, set())["index.json"]["advisories"] == []

    def test_name_no_release_behind_the_newest_that_was_run(self, results: Path) -> None:
        path = add(results, "llama", "5.2.0", "2.11.0")
        Results(path).add_proof(CASES["llama"], "dynamic-cache-pytree", proved("fails", problem="no node"))
        files = _folder.files_of(read_cells(results), set())
        (affected,) = files["advisories/EXPORTCOMPAT-dynamic-cache-pytree.json"]["affected"]
        assert affected["ranges"][0]["events"][-1] == {"last_affected": "5.2.0"}
        assert affected["versions"][-1] == "5.2.0"

    def test_those_of_wrong_results_come_first(self, results: Path) -> None:
        path = add(results, "llama", "5.2.0", "2.11.0")
        Results(path).add_proof(CASES["llama"], "dynamic-cache-pytree", proved("fails", problem="no node"))
        files = _folder.files_of(read_cells(results), set())
        assert files["index.json"]["advisories"] == [
            "EXPORTCOMPAT-case-llama-eager",
            "EXPORTCOMPAT-rotary-table-length",
            "EXPORTCOMPAT-dynamic-cache-pytree",
        ]

    def test_what_no_patch_mends_is_claimed_for_what_was_run_alone(self, made: Path) -> None:
        advisory = read(made, "advisories/EXPORTCOMPAT-case-llama-eager.json")
        (affected,) = advisory["affected"]
        assert affected["versions"] == ["5.24.0"]
        assert affected["database_specific"]["requires"] == ["transformers==5.24.0", "torch==2.13.0"]
        more = advisory["database_specific"]
        assert (more["patch"], more["outcome"], more["evidence"][0]["problem"]) == ("", "wrong", "call 3: off by 2")

    def test_what_patches_have_harmed_is_no_defect_of_upstream(self, results: Path) -> None:
        plain = {**PLAIN, "state": "works"}
        add(results, "opt", "5.24.0", "2.13.0", "wrong", problems=["harmed"], plain=plain)
        names = _folder.files_of(read_cells(results), set())["index.json"]["advisories"]
        assert "EXPORTCOMPAT-case-opt" not in names and "EXPORTCOMPAT-case-llama-eager" in names

    def test_have_commands_that_exist(self) -> None:
        cells = read_cells(ROOT / "matrix" / "results")
        mended = advisories(default_registry(), runs_without(cells, set()))
        assert mended
        for advisory in [*mended, *unmended(cells, types_of(cells), set())]:
            for item in advisory["database_specific"]["reproduction"]:
                program, (case, *rest) = shlex.split(item["command"])[:4], shlex.split(item["command"])[4:]
                assert program == ["python", "-m", "exportcompat.matrix", "check"]
                parse_proof(case)
                patch = advisory["database_specific"]["patch"]
                assert rest == (["--exclude", patch] if patch else [])
                assert not patch or default_registry().variants(patch)


def test_badges_count_what_works(made: Path) -> None:
    assert read(made, "badges/llama.json") == {
        "schemaVersion": 1,
        "label": "llama export",
        "message": "1 of 2 version pairs",
        "color": "red",
    }
    assert read(made, "badges/mixtral.json")["color"] == "brightgreen"


def test_the_reader_reads_what_is_written(made: Path) -> None:
    data = Dataset(made)
    assert data.model_types == ["llama", "mixtral"]
    assert data.results("llama")["model_type"] == "llama"
    assert [item["id"] for item in data.advisories] == [
        "EXPORTCOMPAT-case-llama-eager",
        "EXPORTCOMPAT-rotary-table-length",
    ]


def test_the_wheel_of_data_has_no_code_and_a_licence_of_its_own() -> None:
    folder = ROOT / "dataset"
    (module,) = folder.rglob("*.py")
    assert module.read_text("utf-8").startswith('"""') and module.read_text("utf-8").count('"""') == 2
    assert "CC0 1.0 Universal" in (folder / "LICENSE").read_text("utf-8")
    settings = (folder / "pyproject.toml").read_text("utf-8")
    assert 'license = "CC0-1.0"' in settings and "max-wheel-bytes = 1_000_000" in settings
