"""`exportcompat audit`: what pinned versions are, what is known of them, and the exit status."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exportcompat._audit import Pins, read_pins
from exportcompat._cli import main
from exportcompat._dataset import _files
from exportcompat.registry import ExportCompatError

ROOT = Path(__file__).resolve().parents[1]
UV_LOCK = """
version = 1

[[package]]
name = "torch"
version = "2.13.0"

[[package]]
name = "torch"
version = "2.13.0+cpu"

[[package]]
name = "transformers"
version = "4.47.1"

[[package]]
name = "exportcompat"
source = { editable = "." }
"""
PYLOCK = """
lock-version = "1.0"

[[packages]]
name = "Transformers"
version = "4.47.1"

[[packages]]
name = "torch"
version = "2.13.0"
marker = "python_version >= '3'"

[[packages]]
name = "torch"
version = "2.6.0"
marker = "python_version < '3'"
"""


def advisory(patch: str, outcome: str, requires: list[str], package: str = "transformers", **bounds: str) -> Any:
    events = [{name: text} for name, text in bounds.items()]
    affected = {
        "package": {"ecosystem": "PyPI", "name": package},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
        "database_specific": {"requires": requires},
    }
    more = {"outcome": outcome, "patch": patch, "reproduction": [{"command": f"check {patch}"}]}
    return {"id": f"EXPORTCOMPAT-{patch}", "summary": f"{patch}.", "affected": [affected], "database_specific": more}


ADVISORIES = [
    advisory("table", "wrong", ["transformers>=4.44,<4.48", "torch>=2.6"], introduced="4.44", fixed="4.48"),
    advisory(
        "old-torch", "fails", ["transformers>=4.44", "torch>=2.6,<2.9"], introduced="4.44", last_affected="5.24.0"
    ),
    advisory("cache", "fails", ["transformers>=4.44"], introduced="4.44", last_affected="5.24.0"),
    advisory("graph", "fails", ["torch>=2.14"], "torch", introduced="2.14", last_affected="2.15.0"),
    # Its requirements do not say where it ends.
    advisory("mask", "wrong", ["torch>=2.6"], "torch", introduced="2.6", fixed="2.7"),
    advisory("", "wrong", ["torch==2.12.0"], "torch", introduced="2.12.0", last_affected="2.12.0"),
]
CASE = {"title": "x", "task": "text-generation", "part": "", "attention": "default", "route": "dynamo"}


def result(case: str, transformers: str, outcome: str, plain: str) -> dict[str, Any]:
    place = {"case": case, "transformers": transformers, "torch": "2.13.0", "date": "2026-11-26", "current": True}
    return {
        **place,
        "outcome": outcome,
        "plain": plain,
        "environment": 0,
        "patches": 0,
        "plain_problem": 0,
        "problem": 1,
    }


LLAMA = {
    "schema": 1,
    "model_type": "llama",
    "cases": dict.fromkeys(("llama", "llama_eager", "llama_bad"), CASE),
    "environments": [{}],
    "patch_sets": [["cache", "unneeded"]],
    "problems": ["no node", "off by 2"],
    "results": [
        result("llama", "4.47.1", "patched", "fails"),
        result("llama_eager", "4.47.1", "native", "works"),
        result("llama_bad", "5.24.0", "wrong", "fails"),
        result("llama", "5.23.0", "native", "works"),
        result("llama", "4.50.0", "patched", "fails"),
        result("llama_eager", "4.50.0", "patched", "wrong"),
    ],
}


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make the data that are found as an installed package is."""
    folder = tmp_path / "packages" / "exportcompat_data"
    index = {
        "schema": 1,
        "exportcompat": "0.1.0",
        "results": 4,
        "current": 4,
        "date": "2026-11-26",
        "model_types": {"llama": {}},
        "advisories": [item["id"] for item in ADVISORIES],
        "releases": {"transformers": ["4.47.1", "5.24.0"], "torch": ["2.6.0", "2.15.0"]},
    }
    files = {"index.json": index, "results/llama.json": LLAMA, "specs.json": {"specs": []}}
    for name, item in {**files, **{f"advisories/{item['id']}.json": item for item in ADVISORIES}}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(item))
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.delitem(sys.modules, "exportcompat_data", raising=False)
    _files.dataset.cache_clear()
    yield folder
    _files.dataset.cache_clear()
    sys.modules.pop("exportcompat_data", None)


def write(folder: Path, text: str, name: str = "requirements.txt") -> Path:
    (folder / name).write_text(text)
    return folder / name


def run(capsys: Any, *arguments: object) -> tuple[int, Any]:
    """Run `audit --json`; return the exit status and what was printed."""
    status = main(["audit", *map(str, arguments), "--json"])
    return status, json.loads(capsys.readouterr().out)["audits"]


def ids(found: Any) -> list[str]:
    return [item["id"].removeprefix("EXPORTCOMPAT-") for item in found["findings"]]


class TestPins:
    """What a file pins."""

    def test_a_file_of_requirements(self, tmp_path: Path) -> None:
        write(tmp_path, "numpy==2.4.6\nonnx>=1.17", "more.txt")
        text = """
            # a comment
            torch==2.13.0 \\
                --hash=sha256:aa \\
                --hash=sha256:bb
            transformers[torch] == 4.57.6 ; python_version >= "3"  # another
            protobuf==5.0; python_version < "3"
            onnx_ir==0.1.8 --hash=sha256:aa
            requests==2.34.2
            -r more.txt
            --extra-index-url https://example.org
            -e .
            exportcompat
        """
        pins = read_pins(write(tmp_path, "\n".join(line.strip() for line in text.splitlines())))
        assert pins.versions == {
            "torch": ("2.13.0",),
            "transformers": ("4.57.6",),
            "onnx-ir": ("0.1.8",),
            "numpy": ("2.4.6",),
        }
        assert pins.loose == {"onnx": ">=1.17", "exportcompat": ""}
        assert pins.has_patches

    def test_files_that_include_each_other_end(self, tmp_path: Path) -> None:
        write(tmp_path, "-r requirements.txt\ntorch==2.13.0", "more.txt")
        assert read_pins(write(tmp_path, "-rmore.txt\n")).versions == {"torch": ("2.13.0",)}

    def test_a_lock_file_of_uv(self, tmp_path: Path) -> None:
        pins = read_pins(write(tmp_path, UV_LOCK, "uv.lock"))
        assert pins.versions == {"torch": ("2.13.0", "2.13.0+cpu"), "transformers": ("4.47.1",)}
        assert pins.has_patches
        assert [item["torch"] for item in pins.environments()] == ["2.13.0", "2.13.0+cpu"]

    def test_a_lock_file_of_python_packaging(self, tmp_path: Path) -> None:
        pins = read_pins(write(tmp_path, PYLOCK, "pylock.toml"))
        assert pins.versions == {"transformers": ("4.47.1",), "torch": ("2.13.0",)}
        assert not pins.has_patches

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("requirements.txt", "torch>=2.6\n", r"pins no version of torch or transformers \(torch>=2.6\)"),
            ("requirements.txt", "torch==2.13.*\n", r"torch==2.13.\*"),
            ("requirements.txt", "numpy\ntorch=2.13\n", r"requirements.txt, line 2: 'torch=2.13' is no requirement"),
            ("requirements.txt", "-r none.txt\n", r"none.txt cannot be read"),
            ("pylock.toml", "[project]\n", r"lists no packages; give uv.lock"),
            ("uv.lock", "[", r"uv.lock cannot be read"),
        ],
    )
    def test_what_cannot_be_used_is_said(self, tmp_path: Path, name: str, text: str, said: str) -> None:
        with pytest.raises(ExportCompatError, match=said):
            read_pins(write(tmp_path, text, name))

    def test_a_file_of_something_else_has_nothing_to_judge(self, tmp_path: Path, capsys: Any) -> None:
        assert list(Pins("x", {"numpy": ("2.4.6",)}, {"onnx": ">=1"}).environments()) == []
        status, (found,) = run(capsys, write(tmp_path, "numpy==2.4.6\nmkdocs\n"))
        assert (status, found["findings"]) == (0, [])
        assert found["notes"] == ["it has neither torch nor transformers"]


class TestFindings:
    """What is known of versions."""

    def test_wrong_ones_come_first_and_count(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==4.47.1\ntorch==2.13.0\n")
        status, (found,) = run(capsys, path)
        assert (status, ids(found)) == (1, ["table", "cache"])
        assert found["findings"][0] == {
            "outcome": "wrong",
            "id": "EXPORTCOMPAT-table",
            "summary": "table.",
            "patches": ["table"],
            "is_mended": False,
            "reproduction": "check table",
        }

    def test_what_is_mended_does_not_count(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==4.47.1\ntorch==2.13.0\nexportcompat==0.1.0\n")
        status, (found,) = run(capsys, path)
        assert (status, ids(found)) == (0, ["table", "cache"])
        assert all(item["is_mended"] for item in found["findings"])
        path = write(tmp_path, "transformers==4.47.1\ntorch==2.13.0\n")
        assert run(capsys, path, "--with-patches")[0] == 0

    @pytest.mark.parametrize(
        ("pins", "known"),
        [
            ("transformers==4.48.0\ntorch==2.13.0", ["cache"]),
            ("transformers==4.48.0\ntorch==2.8.0", ["old-torch", "cache"]),
            ("transformers==5.25.0\ntorch==2.13.0", []),
            ("transformers==5.24.0\ntorch==2.15.0.dev20260101+cpu", ["cache", "graph"]),
            ("torch==2.14.1", ["graph"]),
            ("transformers==4.43.0\ntorch==2.13.0", []),
        ],
    )
    def test_ranges_end(self, tmp_path: Path, capsys: Any, pins: str, known: list[str]) -> None:
        status, (found,) = run(capsys, write(tmp_path, pins))
        assert (status, ids(found)) == (int(bool(known)), known)

    def test_packages_that_do_not_go_together_are_never_mended(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "torch==2.13.0\nonnxscript==0.5.7\nexportcompat\n")
        status, (found,) = run(capsys, path)
        assert status == 1
        (item,) = found["findings"]
        assert item["outcome"] == "mismatch" and "onnxscript>=0.6" in item["summary"]

    def test_what_no_patch_mends_is_never_mended(self, tmp_path: Path, capsys: Any) -> None:
        status, (found,) = run(capsys, write(tmp_path, "torch==2.12.0\nexportcompat\n"))
        (item,) = found["findings"]
        assert (status, item["patches"], item["is_mended"]) == (1, [], False)

    def test_newer_releases_are_named(self, tmp_path: Path, capsys: Any) -> None:
        _, (found,) = run(capsys, write(tmp_path, "transformers==5.25.0\ntorch==2.15.0"))
        assert found["notes"] == ["transformers 5.25.0 is newer than what was run, 5.24.0: nothing is known of it"]

    def test_the_age_is_said(self, tmp_path: Path, capsys: Any, data: Path) -> None:
        index = json.loads((data / "index.json").read_text())
        (data / "index.json").write_text(json.dumps({**index, "current": 1}))
        _, (found,) = run(capsys, write(tmp_path, "torch==2.13.0"))
        assert found["notes"][0].startswith("3 of the 4 results were found with an older code of exportcompat")

    def test_each_combination_of_a_lock_file_is_told(self, tmp_path: Path, capsys: Any) -> None:
        status, found = run(capsys, write(tmp_path, UV_LOCK, "uv.lock"), write(tmp_path, "torch==2.13.0"))
        assert status == 0 and [item["versions"]["torch"] for item in found] == ["2.13.0", "2.13.0+cpu", "2.13.0"]


class TestModels:
    """What was seen of one model."""

    def test_its_own_results_are_told(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==4.47.1\ntorch==2.13.0\n")
        status, (found,) = run(capsys, path, "--model", "llama")
        assert (status, ids(found)) == (1, ["llama/llama"])
        (item,) = found["findings"]
        assert (item["summary"], item["patches"]) == ("no node", ["cache"])
        assert item["reproduction"] == "python -m exportcompat.matrix check llama --plain"

    def test_its_wrong_results_come_first(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==4.50.0\ntorch==2.13.0\n")
        _, (found,) = run(capsys, path, "--model", "llama")
        assert ids(found) == ["llama/llama_eager", "llama/llama"]

    def test_what_works_without_patches_is_no_finding(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==5.23.0\ntorch==2.13.0\n")
        assert run(capsys, path, "--model", "llama")[0] == 0

    def test_what_patches_do_not_mend_counts(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==5.24.0\ntorch==2.13.0\nexportcompat\n")
        status, (found,) = run(capsys, path, "--model", "llama")
        (item,) = found["findings"]
        assert (status, item["outcome"], item["summary"], item["is_mended"]) == (1, "wrong", "off by 2", False)
        assert item["patches"] == []

    def test_versions_that_were_not_run_say_so(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "transformers==4.47.0\ntorch==2.13.0\n")
        _, (found,) = run(capsys, path, "--model", "llama")
        assert found["notes"] == ["llama was not run on these versions; this is what is known of them for any model"]
        assert ids(found) == ["table", "cache"]

    def test_one_that_is_not_known_gets_a_question(self, tmp_path: Path, capsys: Any) -> None:
        path = write(tmp_path, "torch==2.13.0")
        assert main(["audit", str(path), "--model", "lama"]) == 2
        assert "did you mean 'llama'" in capsys.readouterr().err


class TestCommand:
    """The text, and the exit status."""

    def test_the_text(self, tmp_path: Path, capsys: Any, data: Path) -> None:
        path = write(tmp_path, "transformers==4.47.1\ntorch==2.13.0\nnumpy>=2\n")
        advisory = data / "advisories" / "EXPORTCOMPAT-cache.json"
        advisory.write_text(advisory.read_text().replace('"cache."', f'"{"x" * 200}"'))
        assert main(["audit", str(path)]) == 1
        out, error = capsys.readouterr()
        assert f"{path}: torch 2.13.0, transformers 4.47.1\n" in out
        assert "numpy>=2 is not pinned, so nothing is said of it" in out
        assert "2 known, 2 not mended; 2 have a patch: pin exportcompat" in out
        assert f"{'x' * 120}\n" in out and "x" * 121 not in out
        assert error == "exportcompat: error: 2 known breakages that nothing pinned mends\n"

    def test_nothing_to_look_at_is_an_error(self, capsys: Any) -> None:
        assert main(["audit"]) == 2
        assert "say what to look at: FILE or --installed" in capsys.readouterr().err

    def test_without_the_data_it_says_what_to_install(
        self, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "exportcompat_data", None)
        assert main(["audit", str(write(tmp_path, "torch==2.13.0"))]) == 2
        assert "run: pip install 'exportcompat[data]'" in capsys.readouterr().err


class TestHooks:
    """What other projects use in their own repositories."""

    def test_the_hook_runs_the_command_on_files_that_it_reads(self) -> None:
        text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
        assert re.findall(r"^- id: (\S+)$", text, re.MULTILINE) == ["exportcompat-audit"]
        assert "entry: exportcompat audit\n" in text and "exportcompat-data" in text
        (pattern,) = re.findall(r"^  files: (\S+)$", text, re.MULTILINE)
        named = (
            "requirements.txt",
            "deep/requirements-dev.txt",
            "uv.lock",
            "poetry.lock",
            "pylock.toml",
            "pylock.x.toml",
        )
        assert [name for name in named if not re.search(pattern, name)] == []
        assert [name for name in ("pyproject.toml", "notes.txt", "cargo.lock") if re.search(pattern, name)] == []

    def test_the_action_passes_its_inputs_as_data(self) -> None:
        text = (ROOT / "action.yml").read_text("utf-8")
        commands = text.partition("run: |")[2]
        # What a caller writes must never be read as a command.
        assert "${{" not in commands and "exportcompat audit" in commands
        for name in re.findall(r"^  ([a-z-]+):\n    description", text, re.MULTILINE):
            assert f"inputs.{name} }}}}" in text
