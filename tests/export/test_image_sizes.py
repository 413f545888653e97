"""A model that handles its images one by one: right for any number of images of the sample's size, and no other."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

import exportcompat
from exportcompat.matrix.cases import CASES
from exportcompat.matrix.cases._decoder import Sample
from exportcompat.registry import ExportCompatError

CASE = CASES["video_llama_3_export"]

pytestmark = pytest.mark.skipif(not CASE.exists(), reason="this transformers has no such model")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    subject = CASE.decoder()
    path = tmp_path_factory.mktemp("images") / "model.onnx"
    return subject, exportcompat.export(subject.model, subject.sample(Sample(1, None, 5)), path, verify=False)


def run(path: Path, inputs: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(path)
    positions = inputs["attention_mask"].cumsum(1) - 1
    feeds = {name: value.numpy() for name, value in {"position_ids": positions, **inputs}.items()}
    batch = positions.shape[0]
    past = [item for item in session.get_inputs() if item.name.startswith("past_key_values")]
    feeds |= {item.name: torch.zeros(batch, item.shape[1], 0, item.shape[3]).numpy() for item in past}
    feeds = {item.name: feeds[item.name] for item in session.get_inputs()}
    return torch.from_numpy(session.run(["logits"], feeds)[0])


@pytest.mark.parametrize("images", [1, 2, 3])
def test_takes_any_number_of_images(images: int, made: tuple[Any, Any]) -> None:
    subject, exported = made
    inputs = subject.sample(Sample(images, None, 4))
    with torch.no_grad():
        wanted = subject.model(**inputs).logits
    assert (run(exported.path, inputs) - wanted).abs().max() < 1e-4


def test_an_image_of_another_size_is_refused(made: tuple[Any, Any]) -> None:
    subject, exported = made
    inputs = {**subject.sample(Sample(2, None, 4)), "image_grid_thw": torch.tensor([[1, 4, 8], [1, 8, 4]])}
    with torch.no_grad():
        # Eager takes it: as many features, at other positions.
        subject.model(**inputs)
    with pytest.raises(Exception, match="out of data bounds"):
        run(exported.path, inputs)


def test_the_size_is_an_assumption_of_the_file(made: tuple[Any, Any]) -> None:
    _, exported = made
    conditions = [item.condition for item in exported.report.assumptions]
    assert "every row of image_grid_thw is [1, 4, 8]" in conditions
    held = onnxruntime.InferenceSession(exported.path).get_modelmeta().custom_metadata_map
    assert "every row of image_grid_thw is [1, 4, 8]" in held["exportcompat.assumptions"]


def test_a_sample_with_several_sizes_is_refused(tmp_path: Path) -> None:
    subject = CASE.decoder()
    inputs = {**subject.sample(Sample(2, None, 4)), "image_grid_thw": torch.tensor([[1, 4, 8], [1, 8, 4]])}
    with pytest.raises(ExportCompatError, match="images of one size"):
        exportcompat.export(subject.model, inputs, tmp_path / "model.onnx")
