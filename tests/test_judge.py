"""The judge: what a verdict is, what is kept of what an exporter says, and the page."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.judge import MAKERS, MODELS, JudgedModel, Maker, run_judge
from exportcompat.matrix.judge import _driver as driver
from exportcompat.matrix.judge import _result as result
from exportcompat.matrix.judge import _verdicts as parts
from exportcompat.matrix.judge._driver import read_results
from exportcompat.matrix.judge._page import keeps, page_of, word_of
from exportcompat.registry import ExportCompatError, installed_version

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "matrix" / "judge" / "results.jsonl"


def call(*, success: bool = True, error: str = "", absolute: float | None = 1e-6) -> dict[str, Any]:
    return {"success": success, "error": error, "absolute": absolute}


def said(verdict: str, *options: str, **fields: Any) -> dict[str, Any]:
    base = {"calls": 9, "wrong": 0, "refused": 0, "difference": 1e-6, "error": ""}
    return {**base, "options": list(options), "verdict": verdict, **fields}


def row(maker: str = "genai", model: str = "llama", **fields: Any) -> dict[str, Any]:
    versions = {"transformers": "5.24.0", "torch": "2.13.0"}
    base = {"outcome": "made", "error": "", "warnings": [], "seconds": 1.0, "verdicts": [], "date": "", "key": ""}
    return {**base, "maker": maker, "model": model, "versions": versions, **fields}


class TestVerdicts:
    """What `exportcompat verify` has said of a file."""

    def test_every_call_is_right(self) -> None:
        found = parts.judged({"success": True, "calls": [call(), call(absolute=2e-6)]})
        assert (found["verdict"], found["calls"], found["difference"]) == ("right", 2, 2e-6)

    def test_wrong_numbers_count_more_than_refused_calls(self) -> None:
        refused = call(success=False, error="ONNX Runtime: no", absolute=None)
        found = parts.judged({"success": False, "calls": [call(), refused]})
        assert (found["verdict"], found["refused"], found["error"]) == ("stops", 1, "no")
        found = parts.judged({"success": False, "calls": [refused, call(success=False, absolute=3.0)]})
        assert (found["verdict"], found["wrong"], found["difference"]) == ("wrong", 1, 3.0)

    def test_nothing_compared_is_not_right(self) -> None:
        assert parts.judged({"success": False, "calls": []})["verdict"] == "wrong"

    @pytest.mark.parametrize(
        ("right", "asked"),
        [
            ([()], 1),
            # What is narrower than a contract that holds is not asked.
            ([("--no-padding",)], 3),
            ([("--no-padding", "--no-chunks")], 5),
            ([], 6),
        ],
    )
    def test_contracts_are_asked_widest_first(
        self, right: list[tuple[str, ...]], asked: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def verdict(file: Path, model: Path, options: tuple[str, ...]) -> dict[str, Any]:
            return said("right" if options in right else "wrong", *options)

        monkeypatch.setattr(parts, "verdict", verdict)
        found = parts.verdicts(Path("f"), Path("m"))
        assert len(found) == asked and list(parts.widest(found)) == right

    def test_a_file_that_cannot_be_read_is_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parts, "verdict", lambda *_: {"options": [], "verdict": "unreadable", "error": "no"})
        assert len(parts.verdicts(Path("f"), Path("m"))) == 1

    def test_the_command_that_people_have_is_what_is_run(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime", reason="the command opens the file with it")
        found = parts.verdict(tmp_path / "none.onnx", tmp_path, ())
        assert found["verdict"] == "unreadable" and "none.onnx: there is no such file" in found["error"]

    def test_no_contract_comes_before_one_that_it_lies_in(self) -> None:
        pairs = [(a, b) for index, a in enumerate(parts.CONTRACTS) for b in parts.CONTRACTS[index + 1 :]]
        assert not [pair for pair in pairs if parts.is_within(*pair)]


class TestPromises:
    """A file is judged by what its exporter promises."""

    def test_less_than_everything_is_enough_for_who_promises_less(self) -> None:
        found = [
            said("wrong"),
            said("right", "--no-padding", "--no-chunks"),
            said("right", "--no-padding", "--batch", "1"),
        ]
        assert keeps(MAKERS["genai"], row(verdicts=found))
        assert not keeps(MAKERS["genai"], row(verdicts=found[:2]))
        assert not keeps(MAKERS["exportcompat"], row("exportcompat", verdicts=found))

    def test_everything_is_enough_for_everyone(self) -> None:
        assert all(keeps(maker, row(name, verdicts=[said("right")])) for name, maker in MAKERS.items())

    def test_no_file_is_no_promise_kept(self) -> None:
        assert not keeps(MAKERS["genai"], row(outcome="fails"))

    def test_the_word_of_a_file(self) -> None:
        both = [said("right", "--no-padding", "--no-chunks"), said("right", "--no-padding", "--batch", "1")]
        assert word_of(row(verdicts=both)) == "no padding, no chunks / no padding, one text"
        narrow = said("wrong", "--no-padding", "--batch", "1", "--no-chunks", difference=3.21, wrong=4)
        assert word_of(row(verdicts=[said("stops"), narrow])) == "wrong by 3.2"
        assert word_of(row(outcome="fails")) == "fails"


class TestWhatIsSaid:
    """What is kept of what an exporter prints."""

    def test_warnings_of_the_file_and_no_others(self) -> None:
        text = "Saved\nmodel will diverge from eager\nmodel will diverge from eager\na.py:1: FutureWarning: old\n"
        text += '  File "torch/fx/experimental/proxy_tensor.py", line 2962, in trace\n'
        assert result.warnings_in(text) == ["model will diverge from eager"]

    def test_the_line_that_tells(self) -> None:
        assert result.last_words("Traceback\n  File\nValueError: no\n\n") == "ValueError: no"
        assert result.last_words("x\n## Exception summary\n\n<class 'E'>: no\n\nmore") == "<class 'E'>: no"
        assert result.last_words("") == "the process said nothing"

    def test_a_maker_is_a_process_whose_error_is_kept(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text("import sys\nprint('not supported', sys.argv[1])\nraise SystemExit('no such type')\n")
        maker = Maker(
            name="x", title="x", requires=(), command=(str(script), "{model}"), shown="x", refusal="no such type"
        )
        found = result.make(maker, tmp_path / "m", tmp_path, 60)
        assert (found["outcome"], found["error"]) == ("not-offered", "no such type")
        assert found["warnings"] == ["not supported MODEL_DIR"]


class TestRuns:
    """Where the command goes on from."""

    @pytest.fixture
    def made(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        found: list[str] = []

        def check(maker: Any, model: JudgedModel, source: Path, timeout: float) -> dict[str, Any]:
            found.append(f"{maker.name} {model.name}")
            fields = {"versions": versions, "key": f"{maker.name} {model.name}"}
            return row(maker.name, model.name, verdicts=[said("right")], **fields)

        versions = {"transformers": str(installed_version("transformers")), "torch": "2.13.0"}
        monkeypatch.setattr(driver, "check", check)
        monkeypatch.setattr(driver, "run_forked", lambda *_: "")
        monkeypatch.setattr(driver, "versions_of", lambda maker: versions)
        monkeypatch.setattr(driver, "key_of", lambda maker, model: f"{maker.name} {model.name}")
        monkeypatch.setattr(type(MAKERS["mobius"]), "missing", lambda maker: [])
        return found

    def wanted(self, path: Path, **fields: Any) -> argparse.Namespace:
        base = {"maker": ["mobius*"], "model": ["llama"], "fresh": False, "list": False, "timeout": 5}
        return argparse.Namespace(results=path, **{**base, **fields})

    def test_what_has_a_result_is_not_made_again(self, made: list[str], tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        assert run_judge(self.wanted(path, model=["llama"], maker=["mobius"])) == 0
        assert run_judge(self.wanted(path)) == 0
        assert made == ["mobius llama", "mobius-cpu llama"] and len(read_results(path)) == 2
        run_judge(self.wanted(path, fresh=True))
        assert len(made) == 4

    def test_a_changed_maker_makes_its_results_old(
        self, made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "results.jsonl"
        run_judge(self.wanted(path))
        monkeypatch.setattr(driver, "key_of", lambda maker, model: "another")
        run_judge(self.wanted(path))
        assert len(made) == 4

    def test_unknown_names_are_refused(self, made: list[str], tmp_path: Path) -> None:
        with pytest.raises(ExportCompatError, match=r"no model matches lama; models: llama, mistral"):
            run_judge(self.wanted(tmp_path / "r", model=["lama"]))

    def test_a_maker_that_is_not_installed_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(type(MAKERS["mobius"]), "missing", lambda maker: ["mobius-onnx"])
        with pytest.raises(ExportCompatError, match="no maker that was asked for is installed"):
            run_judge(self.wanted(tmp_path / "r"))
        assert "mobius is left out: it needs mobius-onnx" in capsys.readouterr().out


def test_keys_tell_makers_models_and_scripts_apart() -> None:
    llama = MODELS["llama"]
    keys = [result.key_of(MAKERS[name], llama) for name in ("exportcompat", "torch", "mobius", "mobius-cpu")]
    keys.append(result.key_of(MAKERS["mobius"], MODELS["gpt2"]))
    assert len(set(keys)) == len(keys)


def test_twenty_types_and_the_ropes_that_depend_on_the_length() -> None:
    assert len([model for model in MODELS.values() if not model.fields]) == 20
    assert {model.name for model in MODELS.values() if model.fields} == {"llama_dynamic", "phi3_longrope"}


def test_the_page_is_that_of_the_results() -> None:
    page = (ROOT / "docs" / "judge.md").read_text("utf-8")
    assert page == page_of(list(read_results(RESULTS).values())), (
        "python -m exportcompat.matrix judge --page docs/judge.md"
    )


def test_results_are_one_line_each_and_name_nothing_of_a_machine() -> None:
    text = RESULTS.read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len({(item["versions"]["transformers"], item["maker"], item["model"]) for item in rows}) == len(rows)
    assert not [word for word in ("/tmp/", "/root/", "/home/", "/work/") if word in text]
