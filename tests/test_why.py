"""One result in words."""

import json
from pathlib import Path
from typing import Any

import pytest

from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.checks._row import proved
from exportcompat.matrix.reports._why import why
from exportcompat.matrix.store._results import Installed, Results, file_name
from exportcompat.registry import ExportCompatError

pytest.importorskip("fastjsonschema", reason="the result files are checked")

ROW: dict[str, Any] = {
    "state": "patched",
    "problems": [],
    "plain": {"state": "fails", "problem": "TypeError: no", "seconds": 1.0},
    "difference": 2.5e-6,
    "calls": 188,
    "total_seconds": 9.5,
    "megabytes": 420,
    "applied": ["dynamic-cache-pytree", "rotary-frequencies"],
    "used": ["dynamic-cache-pytree"],
    "modules": [],
}


def add(folder: Path, transformers: str, torch: str, case: str = "llama", **changes: Any) -> Path:
    packages = {"transformers": transformers, "torch": torch, "onnx": "1", "onnxscript": "1", "onnxruntime": "1"}
    installed = Installed("3.11.9", tuple(f"{name}=={text}" for name, text in packages.items()))
    path = folder / file_name(transformers, torch)
    Results(path).add(CASES[case], {**ROW, **changes}, installed)
    return path


def test_a_result_is_told(tmp_path: Path) -> None:
    add(tmp_path, "5.23.0", "2.13.0")
    lines = list(why(tmp_path, "llama", "5.23.0", "2.13.0"))
    assert lines[0] == "Llama (llama) on transformers 5.23.0, torch 2.13.0"
    text = "\n".join(lines)
    assert "state:       patched: works with patches" in text
    assert "unpatched:   fails: TypeError: no" in text
    assert "used:        dynamic-cache-pytree\n" in text
    assert "applied too: rotary-frequencies" in text
    assert "188 calls, largest difference of a logit 2.5e-06" in text
    assert "with python 3.11, torch 2.13.0" in text
    assert "before:" not in text and "age:" not in text
    assert lines[-1].endswith("nox -s matrix -- --transformers 5.23.0 --torch 2.13.0 --case llama --fresh")


def test_proofs_are_told(tmp_path: Path) -> None:
    path = add(tmp_path, "5.23.0", "2.13.0")
    for name, found in {"one": proved("fails", problem="TypeError: no"), "two": proved("works")}.items():
        Results(path).add_proof(CASES["llama"], name, found)
    text = "\n".join(why(tmp_path, "llama", "5.23.0", "2.13.0"))
    assert "proof:       without one fails: TypeError: no\n  proof:       without two works\n" in text


def test_what_stopped_working_and_what_is_old_is_said(tmp_path: Path) -> None:
    add(tmp_path, "5.23.0", "2.13.0")
    path = add(tmp_path, "5.23.0", "2.13.0", state="wrong", problems=["call 3: off by 2"])
    text = path.read_text("utf-8")
    key = Results(path).rows["llama"]["key"]
    path.write_text(text.replace(key, "0" * 16), "utf-8")
    told = "\n".join(why(tmp_path, "llama", "5.23.0", "2.13.0"))
    assert "before:      patched" in told
    assert "problem:     call 3: off by 2" in told
    assert "age:         something that it depends on has changed since" in told


def test_without_a_result_its_neighbours_are_named(tmp_path: Path) -> None:
    for transformers, torch in (("5.9.0", "2.6.0"), ("4.44.2", "2.13.0"), ("5.10.4", "2.13.0"), ("5.2.0", "2.13.0")):
        add(tmp_path, transformers, torch)
    lines = list(why(tmp_path, "llama", "5.9.0", "2.13.0"))
    assert lines[1] == "  has no result"
    assert [line.partition("transformers ")[2] for line in lines[2:-1]] == [
        "5.10.4, torch 2.13.0: patched",
        "5.2.0, torch 2.13.0: patched",
        "4.44.2, torch 2.13.0: patched",
    ]


def test_a_file_that_does_not_say_what_was_installed_is_named(tmp_path: Path) -> None:
    path = add(tmp_path, "5.23.0", "2.13.0")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "environments": {}}), "utf-8")
    with pytest.raises(ExportCompatError, match="does not say what was installed for llama"):
        list(why(tmp_path, "llama", "5.23.0", "2.13.0"))


def test_another_case_or_no_results_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="there are no results in"):
        list(why(tmp_path, "llama", "5.23.0", "2.13.0"))
    add(tmp_path, "5.23.0", "2.13.0")
    with pytest.raises(ExportCompatError, match="there is no case 'nobody', and no model type 'nobody' is known"):
        list(why(tmp_path, "nobody", "5.23.0", "2.13.0"))
    with pytest.raises(ExportCompatError, match="there is no case 'lama'; did you mean 'llama'"):
        list(why(tmp_path, "lama", "5.23.0", "2.13.0"))


@pytest.mark.parametrize("name", ["MixtralForCausalLM", "somebody/Mixtral-8x7B-v0.1"])
def test_a_model_is_named_by_its_type_a_class_or_a_name_of_the_hub(name: str, tmp_path: Path) -> None:
    loaded = {
        "mixtral_loop": ["mixtral"],
        "mixtral_beyond": ["mixtral"],
        "llava": ["clip", "mixtral"],
        "llama": ["llama"],
    }
    for case, folders in loaded.items():
        modules = [
            "transformers.models.auto.modeling_auto",
            *(f"transformers.models.{item}.modeling" for item in folders),
        ]
        add(tmp_path, "5.23.0", "2.13.0", case=case, modules=modules)
    lines = list(why(tmp_path, name, "5.23.0", "2.13.0"))
    guess = [] if "/" not in name else [f"{name!r} is not here; by its name it is taken for a mixtral"]
    assert lines[: len(guess)] == guess
    assert [line.split() for line in lines[len(guess) + 1 :]] == [
        ["mixtral_beyond:", "patched"],
        ["mixtral_loop:", "patched"],
    ]
