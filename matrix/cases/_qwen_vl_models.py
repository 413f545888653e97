"""Vision towers that take images of different sizes in one row of patches, and models of text with such a tower."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from exportcompat import InputObserver, apply_patches
from exportcompat._verification import Discrepancy, OnnxFile
from exportcompat.patches.toolkit.module_state import preserved
from exportcompat.registry import ExportCompatError

from ._decoder import Sample, generator
from ._forward import Forward

Grids = tuple[tuple[int, int, int], ...]
"""Frames, rows and columns of each image."""

_SIZES: Mapping[str, Any] = {
    "hidden_act": "silu",
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_ROW = 3 * 2 * 4 * 4
_LARGE, _SMALL = (1, 16, 16), (1, 8, 12)


class VisionEncoder(Forward):
    """A tower of Qwen-VL; a shape has the size of each image, in patches."""

    traced: Grids = (_LARGE,)
    shapes: Sequence[Grids] = (
        ((1, 12, 12),),
        ((1, 10, 14),),
        ((1, 18, 18),),
        ((1, 20, 20),),
        ((1, 10, 14), (1, 16, 16)),
        ((1, 12, 12), (1, 4, 20), (1, 18, 6)),
        ((4, 10, 8),),
        ((1, 6, 6), (3, 8, 14)),
    )
    axes: Mapping[str, Any] = {"hidden_states": {0: "patches"}, "grid_thw": {0: "images"}}

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        count = len(self.run(self.inputs((_SMALL,))))
        self.outputs = [f"output_{index}" for index in range(count)]

    def shape_of(self, sample: Sample) -> Grids:
        # A sample of a decoder is as many images as it has texts.
        return self.traced if sample == Sample() else (_LARGE, *((_SMALL,) * (sample.batch - 1)))

    def inputs(self, shape: Grids) -> dict[str, Any]:
        sizes = torch.tensor(shape, dtype=torch.int64)
        rows = torch.randn((int(sizes.prod(1).sum()), _ROW), generator=generator())
        return {"hidden_states": rows, "grid_thw": sizes}

    def results(self, output: Any) -> Sequence[Any]:
        return list(_tensors(output))


def _tensors(output: Any) -> Iterator[Any]:
    """Yield the tensors of an output: one to 4.57, in a structure from 5.0 on."""
    if isinstance(output, torch.Tensor):
        yield output
        return
    for item in output.values() if isinstance(output, Mapping) else output:
        yield from _tensors(item)


def make_vision_encoder(model: Any, kind: type[VisionEncoder] = VisionEncoder) -> VisionEncoder:
    """Return a tower whose weights are large enough for every patch to matter."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return kind(model.eval())


def make_qwen2_vl() -> VisionEncoder:
    """Build the tower of Qwen2-VL: full attention within each frame."""
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

    config = Qwen2VLVisionConfig(**{**_SIZES, "hidden_act": "quick_gelu"}, depth=2, embed_dim=32, hidden_size=32)
    return make_vision_encoder(Qwen2VisionTransformerPretrainedModel(config))


def make_qwen2_5_vl() -> VisionEncoder:
    """Build the tower of Qwen2.5-VL: windows of 6 by 6 patches, and full attention in the second of three layers."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

    more = {"window_size": 24, "fullatt_block_indexes": [1], "intermediate_size": 64, "out_hidden_size": 32}
    config = Qwen2_5_VLVisionConfig(**_SIZES, **more, depth=3, hidden_size=32)
    return make_vision_encoder(Qwen2_5_VisionTransformerPretrainedModel(config))


def make_qwen3_vl() -> VisionEncoder:
    """Build the tower of Qwen3-VL: a table of 7 by 7 positions, and features of the first layer beside the last."""
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

    more = {"num_position_embeddings": 49, "deepstack_visual_indexes": [0], "intermediate_size": 64}
    config = Qwen3VLVisionConfig(**_SIZES, **more, depth=2, hidden_size=32, out_hidden_size=32)
    return make_vision_encoder(Qwen3VLVisionModel(config))


_TEXT: Mapping[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 128,
    "max_position_embeddings": 512,
}
_IMAGE = 120
_TOKENS = {"image_token_id": _IMAGE, "video_token_id": 121, "vision_start_token_id": 122, "vision_end_token_id": 123}
_ROTARY = {"type": "default", "rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}

Page = tuple[int, Grids]
"""How many texts, and the images, which are shared out among them in order."""


class ImageText(Forward):
    """A model of texts with images; a shape is a `Page`. The first text has padding on the left."""

    traced: Page = (2, (_LARGE, _SMALL))
    shapes: Sequence[Page] = (
        (1, (_SMALL,)),
        (1, ((1, 10, 14), (1, 6, 6))),
        (3, ((1, 12, 12), (1, 4, 20), (1, 18, 6))),
        (2, ((4, 6, 8),)),
        (1, ()),
        (3, ()),
    )
    axes: Mapping[str, Any] = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "sequence"},
        "position_ids": {1: "batch", 2: "sequence"},
        "pixel_values": {0: "patches"},
        "image_grid_thw": {0: "images"},
    }
    outputs = ("logits",)

    def shape_of(self, sample: Sample) -> Page:
        return self.traced if sample == Sample() else (sample.batch, (_LARGE,))

    def inputs(self, shape: Page) -> dict[str, Any]:
        batch, grids = shape
        sizes = torch.tensor(grids, dtype=torch.int64).reshape(-1, 3)
        tokens = _tokens(batch, grids)
        mask = (tokens > 0).long()
        index = torch.arange(tokens.shape[1])
        positions = torch.stack([index, index // 2, index // 3])[:, None].expand(3, batch, -1).contiguous()
        rows = torch.randn((int(sizes.prod(1).sum()), _ROW), generator=generator())
        names = ("input_ids", "attention_mask", "position_ids", "pixel_values", "image_grid_thw")
        return dict(zip(names, (tokens, mask, positions, rows, sizes), strict=True))

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the logits of an eager call; without images it is given none."""
        images = ("pixel_values", "image_grid_thw")
        has_images = bool(inputs["pixel_values"].shape[0])
        return super().run({name: value for name, value in inputs.items() if has_images or name not in images})


def _tokens(batch: int, grids: Grids) -> torch.Tensor:
    """Return texts with a token for each merged patch, `(batch, sequence)`, 0 where there is padding."""
    texts = [[5, 6, 7, row + 8] for row in range(batch)]
    for index, (frames, rows, columns) in enumerate(grids):
        texts[index * batch // len(grids)] += [122, *[_IMAGE] * (frames * rows * columns // 4), 123, 9]
    width = max(map(len, texts)) + 2
    texts = [[*range(20, 20 + width - len(text)), *text] for text in texts]
    texts[0][:2] = [0, 0]
    return torch.tensor(texts)


class GeneratedText(ImageText):
    """The same, exported with a cache, from what `generate` hands to `forward` in three calls."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._observer = InputObserver()

    def sample(self, sample: Sample) -> dict[str, Any]:
        if sample != Sample():
            return super().sample(sample)
        self._observer = self.observed(((_SMALL,),))
        return dict(self._observer.infer_arguments())

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return self._observer.infer_dynamic_shapes(set_batch_dimension_for=True)

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        return self._observer.interface()

    def observed(self, images: Sequence[Grids]) -> InputObserver:
        """Return an observer of `generate`, called for each of `images`; the model is as it was."""
        observer = InputObserver()
        for grids in images:
            with preserved(self.model), observer(self.model):
                self.model.generate(**self._prompt(grids), max_new_tokens=3, do_sample=False, pad_token_id=0)
        return observer

    def _prompt(self, grids: Grids) -> dict[str, Any]:
        inputs = self.inputs((1, grids))
        tokens = inputs["input_ids"][:, 2:]
        kinds = {"mm_token_type_ids": (tokens == _IMAGE).int()} if self._takes_kinds() else {}
        images = {name: inputs[name] for name in ("pixel_values", "image_grid_thw")}
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **images, **kinds}

    def _takes_kinds(self) -> bool:
        return "mm_token_type_ids" in inspect.signature(self.model.forward).parameters


def compare_generated(path: Path, make: Callable[[], Any]) -> list[Discrepancy]:
    """Compare a file with what `generate` does for other images, and with a decoder's calls without images."""
    subject = make()
    with apply_patches():
        observer = subject.observed((((1, 6, 10),), ((1, 10, 14), (1, 8, 12))))
    if extra := set(OnnxFile(path).outputs) - set(observer.interface()[1]):
        raise ExportCompatError(f"the file has outputs that are no results of a call: {sorted(extra)}")
    return list(observer.check_discrepancies(path))


def make_config(kind: Any, vision: Any, **more: Any) -> Any:
    """Return a configuration of class `kind`.

    What rotary embeddings need has another name from 5.0 on. To 4.51 there is no configuration of the text.
    """
    text = {**_TEXT, "rope_scaling": dict(_ROTARY), "rope_parameters": dict(_ROTARY), **more}
    has_part = "text_config" in inspect.signature(kind.__init__).parameters
    settings = {"text_config": text} if has_part else text
    return kind(**settings, vision_config={**vision, "depth": 2}, **_TOKENS)


def make_whole(model: Any, kind: type[ImageText] = ImageText) -> ImageText:
    """Return a model whose weights are large enough for every patch to matter."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    for config in (model.config, model.config.get_text_config()):
        config.use_cache = kind is GeneratedText
    return kind(model.eval())


def make_qwen2_5_vl_generate() -> ImageText:
    """Build Qwen2.5-VL, to be exported from what `generate` does."""
    return make_qwen2_5_vl_whole(GeneratedText)


def make_qwen2_5_vl_whole(kind: type[ImageText] = ImageText) -> ImageText:
    """Build Qwen2.5-VL, with the tower of `make_qwen2_5_vl`."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vision = make_qwen2_5_vl().model.config.to_dict()
    return make_whole(Qwen2_5_VLForConditionalGeneration(make_config(Qwen2_5_VLConfig, vision)), kind)


def make_qwen2_vl_whole() -> ImageText:
    """Build Qwen2-VL, with the tower of `make_qwen2_vl`."""
    from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration

    vision = make_qwen2_vl().model.config.to_dict()
    return make_whole(Qwen2VLForConditionalGeneration(make_config(Qwen2VLConfig, vision)))


def make_qwen3_vl_whole() -> ImageText:
    """Build Qwen3-VL, with the tower of `make_qwen3_vl`."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    vision = make_qwen3_vl().model.config.to_dict()
    return make_whole(Qwen3VLForConditionalGeneration(make_config(Qwen3VLConfig, vision, head_dim=8)))
