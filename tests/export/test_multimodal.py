"""Models with images: the snippet of the README, and what a graph does with features that are too many or too few."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers.models.gemma3", reason="the model is one of transformers")
pytest.importorskip("onnxruntime", reason="the file is run")

from exportcompat import InputObserver, apply_patches
from exportcompat._observer import takes_more_rows
from exportcompat._observer._passed_on import without_passed_on
from exportcompat._observer._record import Part, Record, take
from exportcompat._observer._text_only_decoder import TextOnlyDecoder
from exportcompat._verification._onnx_file import OnnxFile
from exportcompat.matrix.cases import Sample, find_case
from exportcompat.patches.multimodal._feature_merge import _Rows, patch_feature_merge, placed
from exportcompat.patches.multimodal.lfm2_vl_merge import _of_images
from exportcompat.patches.toolkit.wrapping import changed

STORED = 3
Module: Any = torch.nn.Module


def observed(name: str) -> tuple[Any, InputObserver]:
    """Return a model, and what `generate` hands to it for a text with two images."""
    decoder = find_case(name).decoder()
    inputs = decoder.prompt([2], 5, torch.ones(1, 0, dtype=torch.int64))
    del inputs["position_ids"]
    observer = InputObserver()
    with apply_patches(), observer(decoder.model, store_n_calls=STORED):
        decoder.model.generate(**inputs, max_new_tokens=8)
    return decoder.model, observer


def test_snippet(tmp_path: Path) -> None:
    model, observer = observed("gemma3_image")
    path = tmp_path / "model.onnx"
    with apply_patches():
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs=observer.infer_arguments(),
            dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True),
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    assert "pixel_values" in OnnxFile(path).inputs
    found = observer.check_discrepancies(path)
    assert (found.success, len(found)) == (True, STORED + 188), str(found)
    # Images in the first call, none in the later ones.
    assert [row.inputs["pixel_values"][0] for row in found[:STORED]] == [2, 0, 0]


def test_images_and_types_of_tokens_have_the_axes_of_a_decoder() -> None:
    _, observer = observed("idefics3")
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert shapes["pixel_values"] == {0: "pixel_values_0", 1: "pixel_values_1"}
    assert shapes["pixel_attention_mask"] == {0: "pixel_attention_mask_0", 1: "pixel_attention_mask_1"}
    assert observer.infer_arguments(1)["pixel_values"].shape[0] == 0


@pytest.mark.skipif(not find_case("granite_docling_export").exists(), reason="transformers has it from 5.23 on")
def test_a_mask_of_tiles_has_as_many_as_there_are() -> None:
    decoder = find_case("granite_docling_export").decoder()
    observer = InputObserver()
    with apply_patches(), observer(decoder.model, store_n_calls=STORED):
        decoder.model.generate(**decoder.sample(Sample()), max_new_tokens=STORED)
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert shapes["pixel_values"] == {0: "pixel_values_0", 1: "pixel_values_1"}
    assert shapes["pixel_attention_mask"] == {0: "pixel_attention_mask_0", 1: "pixel_attention_mask_1"}


@pytest.mark.parametrize("name", [name for name in ("qwen2_vl", "qwen3_5") if find_case(name).exists()])
def test_as_many_images_as_texts_are_no_batch(name: str) -> None:
    """Qwen3.5 passes the sizes of the images with every call, and always two of them for two texts."""
    case = find_case(name).decoder()
    inputs = {name: case.inputs(case.traced)[name] for name in ("input_ids", "pixel_values", "image_grid_thw")}
    observer = InputObserver()
    with apply_patches(), observer(case.model, store_n_calls=STORED):
        case.model.generate(**inputs, max_new_tokens=STORED)
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert (shapes["input_ids"][0], shapes["image_grid_thw"]) == ("batch", {0: "image_grid_thw_0"})


@pytest.mark.skipif(not find_case("lfm2_vl").exists(), reason="transformers has it from 4.57 on")
def test_sizes_that_go_on_without_images_are_not_counted_as_these() -> None:
    """`generate` passes the sizes with every call; a file that wants as many images stops there."""
    decoder = find_case("lfm2_vl").decoder()
    inputs = decoder.prompt([1, 1], 5, torch.ones(2, 0, dtype=torch.int64))
    del inputs["position_ids"]
    observer = InputObserver()
    with apply_patches(), observer(decoder.model, store_n_calls=2):
        decoder.model.generate(**inputs, max_new_tokens=3)
    later = observer.infer_arguments(1)
    assert later["pixel_values"].shape[0] == 0 < later["spatial_shapes"].shape[0]
    assert observer.infer_dynamic_shapes(set_batch_dimension_for=True)["spatial_shapes"] == {0: "spatial_shapes_0"}


def test_one_text_with_images_stands_for_several() -> None:
    """Whether a model takes more rows is asked with as many images in each; else eager refuses the call for these."""
    decoder = find_case("gemma3_image").decoder()
    inputs = decoder.prompt([1], 5, torch.ones(1, 0, dtype=torch.int64))
    observer = InputObserver()
    with apply_patches(), observer(decoder.model, store_n_calls=STORED):
        decoder.model.generate(**inputs, max_new_tokens=3)
    assert inputs["input_ids"].shape[0] == 1 and takes_more_rows(observer)


def test_a_text_alone_has_no_placeholders_of_images(tmp_path: Path) -> None:
    class Sum(Module):  # type: ignore[misc]
        def forward(self, input_ids: Any) -> Any:
            return input_ids[..., None] * torch.ones(2)

    tokens, path = torch.tensor([[3, 9, 5]]), tmp_path / "model.onnx"
    torch.onnx.export(
        Sum(), (tokens,), str(path), input_names=["input_ids"], output_names=["logits"], dynamo=True, verbose=False
    )
    config = SimpleNamespace(image_token_id=9, vision_start_token_id=3, video_token_index=None, bos_token_id=5)
    observer = InputObserver()
    with observer(Sum()) as watching:
        watching._model(tokens)
    decoder = TextOnlyDecoder(OnnxFile(path), ["logits"], config, *observer._aligned(), lambda _: None)
    assert decoder({"input_ids": tokens}, {})[0][..., 0].tolist() == [[4, 4, 5]]
    assert tokens.tolist() == [[4, 4, 5]]


MASK = torch.tensor([[True, False, True], [False, True, False]])


def test_features_are_placed_in_order() -> None:
    embeddings, features = torch.zeros(2, 3, 4), torch.arange(12.0).reshape(3, 4) + 1
    assert torch.equal(
        placed(embeddings, MASK, features), embeddings.masked_scatter(MASK[..., None].expand(2, 3, 4), features)
    )


def test_features_are_added_to_what_stands_in_their_places() -> None:
    text, mask = torch.randn(2, 4, 3), torch.tensor([[False, True, True, False], [True, False, False, False]])
    features = torch.randn(3, 3)
    found = _Rows(text, mask[..., None].expand_as(text)) + features.reshape(-1)
    assert torch.allclose(found, text[mask] + features)
    assert (_Rows(text, mask[..., None].expand_as(text)) + features[:0]).shape == (0, 3)


def test_without_features_nothing_is_replaced() -> None:
    embeddings = torch.randn(2, 3, 4)
    assert torch.equal(placed(embeddings, MASK, torch.zeros(0, 4)), embeddings)


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_another_number_of_features_is_refused(count: int) -> None:
    with pytest.raises(IndexError):
        placed(torch.zeros(2, 3, 4), MASK, torch.ones(count, 4))


def test_features_without_a_place_are_refused() -> None:
    with pytest.raises(IndexError):
        placed(torch.zeros(2, 3, 4), torch.zeros_like(MASK), torch.ones(2, 4))


def test_no_first_image_is_looked_at_where_there_may_be_none() -> None:
    # As `get_image_features` of SmolVLM does from 5.0 on.
    def kept(self: Any, pixels: Any) -> Any:
        real_images_inds = pixels != 0
        real_images_inds[0] |= ~torch.any(real_images_inds)
        return pixels[real_images_inds]

    def forward(self: Any, pixels: Any) -> Any:
        return changed(patch_feature_merge, kept)(self, pixels)

    model = type("Model", (torch.nn.Module,), {"forward": forward})()
    images = {0: torch.export.Dim("images", min=0, max=8)}
    program = torch.export.export(model, (torch.tensor([0.0, 1.0]),), dynamic_shapes=(images,))
    assert program.module()(torch.zeros(0)).shape == (0,)
    assert program.module()(torch.tensor([0.0, 2.0, 3.0])).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("name", "is_kept"), [("feature_attention_mask", False), ("attention_mask", True)])
def test_a_mask_of_sounds_that_is_passed_on_without_them_is_left_out(name: str, is_kept: bool) -> None:
    """`generate` passes the one of Qwen2-Audio with every call, and a graph would want as many sounds."""
    mask, sounds = torch.ones(2, 4), torch.ones(2, 3, 4)
    first = Record(take({"input_features": sounds, name: mask}, lambda *_: False), Part(), 0, 0.0)
    assert set(without_passed_on({"input_features": sounds, name: mask}, [first])) == {"input_features", name}
    assert (name in without_passed_on({name: mask}, [first])) == is_kept
    assert name in without_passed_on({name: mask}, []) and name in without_passed_on({name: 2 * mask}, [first])


def test_sizes_of_images_that_do_not_come_do_not_count() -> None:
    """`generate` goes on passing them after the first call of LFM2-VL."""

    class Sizes(Module):  # type: ignore[misc]
        def forward(self, pixels: Any, sizes: Any) -> Any:
            return _of_images(sizes, pixels)

    images = {0: torch.export.Dim("images", min=0, max=8)}, {0: torch.export.Dim("sizes", min=0, max=8)}
    program = torch.export.export(Sizes(), (torch.ones(2, 3), torch.ones(2, 2)), dynamic_shapes=images)
    assert program.module()(torch.zeros(0, 3), torch.ones(3, 2)).shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_positions_of_a_text_alone_are_of_the_type_that_was_observed(dtype: Any) -> None:
    """Those of Qwen3-Omni are fractions of a second."""
    decoder = TextOnlyDecoder.__new__(TextOnlyDecoder)
    decoder._aligned = SimpleNamespace(donors={"position_ids": torch.zeros(3, 1, 2, dtype=dtype)})  # type: ignore[assignment]
    found = decoder._positions({"position_ids": torch.arange(2)[None]})["position_ids"]
    assert (found.dtype, found.tolist()) == (dtype, [[[0, 1]]] * 3)
