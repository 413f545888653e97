"""Which files of a model's folder are copied beside an exported file, without an export."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the package of exports needs it")

from exportcompat._cli._output_folder import left_before
from exportcompat._cli._transformers_js import TRANSFORMERS_JS, lay_out
from exportcompat._exporter import copy_companions

COPIED = {
    "tokenizer.json": b"{\r\n}",
    "additional_chat_templates/rag.jinja": b"{{ a }}",
    "1_Pooling/config.json": b'{"word":  1}',
    "sub/deep/x.json": b"\xff",
    "onnx/quantize_config.json": b"{}",
}
LEFT = (".hidden", "model.safetensors", "onnx/model.onnx", "sub/model-00001-of-00002.bin", "sub/model.bin.index.json")
SILENT = (".git/config", ".cache/x.json", "sub/.cache/x.json", "sub/.hidden", "__pycache__/own.pyc", "out/model.json")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a folder with a file of every kind."""
    folder = tmp_path / "model"
    others = dict.fromkeys((*LEFT, *SILENT), b"")
    for name, content in {"config.json": b"{}", "genai_config.json": b"", **COPIED, **others}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_files_in_folders_are_copied_as_they_are(source: Path, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    written, left = copy_companions(source, staging, "float32", source / "out")
    found = {path.relative_to(staging).as_posix(): path.read_bytes() for path in staging.rglob("*") if path.is_file()}
    assert {name: content for name, content in found.items() if name != "config.json"} == COPIED
    assert left == sorted(LEFT)
    assert {path.relative_to(staging).as_posix() for path in written} == {"config.json", *COPIED}


def test_a_link_to_a_folder_above_ends(source: Path, tmp_path: Path) -> None:
    (source / "sub" / "loop").symlink_to(source)
    staging = source / "staging"
    staging.mkdir()
    written, _ = copy_companions(source, staging, "float32", source / "out")
    assert len(written) == len(COPIED) + 1


def test_the_layout_of_transformers_js_takes_a_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "quantize_config.json").write_bytes(b"{}")
    lay_out(tmp_path, TRANSFORMERS_JS)
    assert (tmp_path / "onnx" / "quantize_config.json").exists()


def test_files_of_an_earlier_export_are_named(source: Path) -> None:
    written = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    written -= {Path("genai_config.json"), Path("sub/deep/x.json")}
    assert left_before(source, written) == ["genai_config.json", "sub/deep/x.json"]
