"""What nobody observed is compared too: other rows, another length, padding."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="graphs are exported")
pytest.importorskip("onnxruntime", reason="files are run")
pytest.importorskip("onnxscript", reason="graphs are exported")

from exportcompat import ExportCompatError, InputObserver, apply_patches
from exportcompat._observer import observe

Module: Any = torch.nn.Module

CALLS = {"observed call 1 of 2", "observed call 2 of 2", "calls of other sizes", "calls with padding"}


class Scorer(Module):
    """Scores texts, `(batch, length)`; what it forgets makes no difference to two rows of 8 or 16 tokens."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 8)
        self.forgets = ""

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        found = self.table(input_ids)
        if self.forgets != "padding":
            found = found * attention_mask[..., None]
        scores = found.sum(1)
        if self.forgets == "rows":
            scores = scores * (torch.arange(scores.shape[0]) < 2)[:, None]
        if self.forgets == "lengths":
            scores = scores * torch.ones(input_ids.shape[1]).sum() / (input_ids.shape[1] // 8 * 8)
        return scores


def observed(model: Any) -> InputObserver:
    tokens = torch.arange(16).reshape(2, 8)
    return observe(model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, generate=False)


def exported(model: Any, observer: InputObserver, folder: Path, *, batch: bool = True) -> Path:
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=batch)
    names, path = observer.interface(), folder / "model.onnx"
    with apply_patches():
        torch.onnx.export(
            model,
            kwargs=observer.infer_arguments(),
            dynamic_shapes=shapes,
            dynamo=True,
            input_names=names[0],
            output_names=names[1],
            verbose=False,
        ).save(path)
    return path


@pytest.mark.parametrize(
    ("forgets", "group"),
    [("rows", "calls of other sizes"), ("lengths", "calls of other sizes"), ("padding", "calls with padding")],
)
def test_what_a_file_forgot_is_seen_where_it_matters(forgets: str, group: str, tmp_path: Path) -> None:
    model = Scorer()
    observer = observed(model)
    model.forgets = forgets
    path = exported(model, observer, tmp_path)
    assert observer.check_discrepancies(path).success
    model.forgets = ""
    found = observer.check_discrepancies(path)
    assert {row.group or row.call for row in found} == CALLS
    assert {row.group for row in found if not row.success} == {group}


def test_an_axis_that_a_file_has_fixed_is_left_alone(tmp_path: Path) -> None:
    model = Scorer()
    observer = observed(model)
    path = exported(model, observer, tmp_path, batch=False)
    # The axes of this observer are those of a dynamic batch; the file says that it has two rows.
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    found = observer.check_discrepancies(path)
    assert found.success
    assert [row.sizes for row in found if row.group == "calls of other sizes"] == [{"batch": 2, "sequence": 13}]


class Pooled(Module):
    """Pools images, `(batch, 3, height, width)`; what it forgets makes no difference to heights of 8, 16 and so on."""

    def __init__(self, *, forgets: bool = False, most: int = 100) -> None:
        super().__init__()
        self.forgets, self.most = forgets, most

    def forward(self, pixel_values: Any) -> dict[str, Any]:
        height, width = pixel_values.shape[2:]
        if not torch.compiler.is_exporting() and width > self.most:
            raise ValueError("too wide")
        pooled = pixel_values.sum((2, 3))
        return {"pooled": pooled / (height // 8 * 8 if self.forgets else height), "total": pooled.sum(1)}


def pooled(folder: Path, **settings: Any) -> tuple[InputObserver, Path]:
    """Return what has observed one image, and a file that others made, for images of any size."""
    observer = observe(Pooled(**settings), {"pixel_values": torch.rand(2, 3, 8, 8)}, generate=False)
    path = folder / "model.onnx"
    model = Pooled(forgets=settings.get("forgets", False))
    axes = {"pixel_values": {0: "images", 2: "height", 3: "width"}}
    sample = {"pixel_values": torch.rand(2, 3, 16, 24)}
    options = {"input_names": ["pixel_values"], "output_names": ["pooled", "total"], "verbose": False}
    torch.onnx.export(model, kwargs=sample, dynamic_shapes=axes, dynamo=True, **options).save(path)
    return observer, path


def test_sizes_that_a_file_takes_and_nobody_observed(tmp_path: Path) -> None:
    observer, path = pooled(tmp_path)
    found = observer.check_discrepancies(path)
    assert found.success, found
    shapes = {row.inputs["pixel_values"] for row in found}
    assert shapes >= {(1, 3, 8, 8), (3, 3, 8, 8), (2, 3, 16, 8), (2, 3, 5, 8), (2, 3, 8, 16), (2, 3, 8, 5)}
    observer, path = pooled(tmp_path, forgets=True)
    observer._model.forgets = False
    found = observer.check_discrepancies(path)
    assert [row.call for row in found if not row.success] == ["made up: height 5"]


def test_sizes_that_a_file_takes_and_eager_does_not(tmp_path: Path) -> None:
    observer, path = pooled(tmp_path, most=8)
    found = observer.check_discrepancies(path)
    assert found.success, found
    assert found.notes == ("not compared: made up: width 16; eager: ValueError: too wide",)
    assert {row.inputs["pixel_values"][3] for row in found} == {8}


@pytest.mark.parametrize("is_own", [False, True])
def test_a_file_of_others_may_lack_results(is_own: bool, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the file is changed")
    observer, path = pooled(tmp_path)
    model = onnx.load(str(path))
    del model.graph.output[1]
    if is_own:
        model.metadata_props.add(key="exportcompat.version", value="1")
    onnx.save(model, str(path))
    if is_own:
        with pytest.raises(ExportCompatError, match="the file has 1 outputs .*, the model 2"):
            observer.check_discrepancies(path)
        return
    found = observer.check_discrepancies(path)
    assert found.success
    assert "the file does not have, so not compared: total" in found.notes


def test_what_eager_refuses_is_a_note(tmp_path: Path) -> None:
    class Even(Scorer):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            if not torch.compiler.is_exporting() and input_ids.shape[1] % 2:
                raise ValueError("lengths are even")
            return super().forward(input_ids, attention_mask)

    model = Even()
    observer = observed(model)
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert found.success and {row.sizes["batch"] for row in found if row.group == "calls of other sizes"} == {1, 3}
    assert any("sequence 13; eager: ValueError: lengths are even" in note for note in found.notes)


class Pairs(Module):
    """Scores texts, `(texts, length)`, against images, `(images, 3, 2, 2)`; it may need one for each."""

    def __init__(self, *, needs: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.needs = torch.nn.Embedding(50, 3), needs

    def forward(self, input_ids: Any, pixel_values: Any) -> Any:
        texts, images = self.table(input_ids).sum(1), pixel_values.sum((2, 3))
        return texts * images if self.needs else images @ texts.T


@pytest.mark.parametrize(("needs", "axis"), [(True, "batch"), (False, "pixel_values_0")])
def test_texts_and_images_are_as_many_only_where_they_have_to_be(needs: bool, axis: str, tmp_path: Path) -> None:
    model = Pairs(needs=needs)
    call = {"input_ids": torch.arange(16).reshape(2, 8), "pixel_values": torch.randn(2, 3, 2, 2)}
    observer = observe(model, call, generate=False)
    path = exported(model, observer, tmp_path)
    assert observer.axes()["pixel_values"] == {0: axis}
    found = observer.check_discrepancies(path)
    assert found.success
    made_up = [row.sizes for row in found if row.group == "calls of other sizes"]
    sizes = {(item["batch"], item.get("pixel_values_0")) for item in made_up}
    assert sizes == ({(1, None), (3, None), (2, None)} if needs else {(1, 2), (3, 2), (2, 1), (2, 3), (2, 2)})


def test_images_and_their_masks_are_as_many(tmp_path: Path) -> None:
    class Masked(Module):
        def __init__(self) -> None:
            super().__init__()
            self.pairs = Pairs(needs=False)

        def forward(self, input_ids: Any, pixel_values: Any, pixel_attention_mask: Any) -> Any:
            # Eager broadcasts one image to the masks of two.
            return self.pairs(input_ids, pixel_values * pixel_attention_mask[:, None])

    call = {"input_ids": torch.arange(16).reshape(2, 8), "pixel_values": torch.randn(2, 3, 2, 2)}
    model = Masked()
    observer = observe(model, {**call, "pixel_attention_mask": torch.ones(2, 2, 2)}, generate=False)
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert found.success, found
    counts = {(row.inputs["pixel_values"][0], row.inputs["pixel_attention_mask"][0]) for row in found}
    assert counts == {(1, 1), (2, 2), (3, 3)}


def test_choices_vary_in_their_number_and_length() -> None:
    class Choosing(Module):
        def forward(self, input_ids: Any, boxes: Any) -> Any:
            return input_ids.sum(2) + boxes.sum((2, 3))

    tokens = torch.arange(32).reshape(2, 2, 8)
    observer = observe(Choosing(), {"boxes": torch.zeros(2, 2, 8, 4), "input_ids": tokens}, generate=False)
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert observer.axes() == {
        "input_ids": {0: "batch", 1: "input_ids_1", 2: "input_ids_2"},
        "boxes": {0: "batch", 1: "input_ids_1", 2: "input_ids_2"},
    }


def test_a_mask_of_steps_is_as_long_as_these() -> None:
    """A step of a sound has several tokens, and one place in the mask."""

    class Steps(Module):
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return input_ids.sum(2) * attention_mask

    tokens = torch.arange(48).reshape(2, 8, 3)
    mask = torch.ones(2, 8, dtype=torch.int64)
    observer = observe(Steps(), {"input_ids": tokens, "attention_mask": mask}, generate=False)
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    axes = {0: "batch", 1: "sequence"}
    assert observer.axes() == {"input_ids": axes, "attention_mask": axes}


def test_images_are_no_more_than_their_places_in_the_texts(tmp_path: Path) -> None:
    """Another number of images in the same text is no call: the text says how many there are."""

    class Captions(Scorer):
        config = SimpleNamespace(image_token_id=40)

        def forward(self, input_ids: Any, pixel_values: Any) -> Any:
            return self.table(input_ids) + pixel_values.sum(0)

    tokens = torch.tensor([[40, 40, 7, 8, 9, 10, 11, 12]])
    model = Captions()
    observer = observe(model, {"input_ids": tokens, "pixel_values": torch.ones(2, 8)}, generate=False)
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert found.success
    sizes = {(row.inputs["input_ids"][0], row.inputs["pixel_values"][0]) for row in found}
    assert (1, 3) not in sizes and (1, 1) not in sizes


@pytest.mark.parametrize("token", [40, None])
def test_what_is_padding_by_its_token_is_compared(token: int | None, tmp_path: Path) -> None:
    """Decoders that classify read the last token that is no padding, whatever the mask says."""

    class Last(Scorer):
        config = SimpleNamespace(pad_token_id=token)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            states = self.table(input_ids) * attention_mask[..., None]
            if self.forgets:
                return states[:, -1]
            last = (torch.arange(input_ids.shape[1]) * (input_ids != 40)).argmax(1)
            return states[torch.arange(input_ids.shape[0]), last]

    model = Last()
    observer = observed(model)
    model.forgets = "padding"
    path = exported(model, observer, tmp_path)
    model.forgets = ""
    found = observer.check_discrepancies(path)
    # Without a token of padding nothing but the mask tells what is padding, and the last token is read.
    assert {row.group for row in found if not row.success} == ({"calls with padding"} if token else set())


@pytest.mark.parametrize("config", [{"pad_token_id": 50}, {"pad_token_id": 40, "image_token_id": 6}], ids=str)
def test_padding_that_eager_would_refuse_is_by_the_mask_alone(config: Any, tmp_path: Path) -> None:
    """The table has 50 rows, and the first text has one place of an image: its last token but one."""

    class Places(Scorer):
        def __init__(self) -> None:
            super().__init__()
            self.config = SimpleNamespace(**config)

        def get_input_embeddings(self) -> Any:
            return self.table

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            if not torch.compiler.is_compiling() and "image_token_id" in config and not bool((input_ids == 6).any()):
                raise ValueError("a place of an image is missing")
            return super().forward(input_ids, attention_mask)

    model = Places()
    observer = observed(model)
    found = observer.check_discrepancies(exported(model, observer, tmp_path))
    assert "calls with padding" in {row.group for row in found}, found.notes


class Tower(Module):
    """Adds to each patch, `(patches, channels)`, the number of patches of its image, of which `grid_thw` has a row."""

    def forward(self, pixel_values: Any, grid_thw: Any) -> Any:
        ends = grid_thw.prod(1).cumsum(0)
        image = (torch.arange(pixel_values.shape[0])[:, None] >= ends).sum(1)
        return pixel_values + grid_thw.prod(1)[image][:, None]


def test_patches_are_no_images(tmp_path: Path) -> None:
    sizes = ([[1, 2, 2], [1, 2, 4]], [[1, 4, 2], [1, 2, 2], [1, 2, 2]])
    grids = [torch.tensor(item) for item in sizes]
    calls = [{"pixel_values": torch.rand(int(item.prod(1).sum()), 3), "grid_thw": item} for item in grids]
    observer = observe(Tower(), calls)
    assert observer.axes() == {"pixel_values": {0: "pixel_values_0"}, "grid_thw": {0: "batch"}}
    found = observer.check_discrepancies(exported(Tower(), observer, tmp_path))
    # One patch beside the sizes of images with more is none of a call's sizes, whether eager takes it or not.
    assert found.success and "pixel_values_0 1," not in str(found) and len(found) == len(calls)
