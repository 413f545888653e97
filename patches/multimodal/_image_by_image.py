"""Features of images of one size: a model's own code computes those of one, in a loop of the graph over all of them."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from exportcompat.patches.toolkit.function_modes import Override, run_under
from exportcompat.patches.toolkit.sample_values import sample_value
from exportcompat.patches.toolkit.tracing import left_alone
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import Assumption, ExportCompatError, tell_assumptions

from ._known_values import KnownValues, known

_SIZES = ("image_grid_thw", "image_grid_hw", "image_sizes", "target_sizes", "image_merge_sizes")
"""Arguments with a row for each image."""

_SIDE_BY_SIDE = "target_sizes"
"""The one whose images stand side by side on the last axis, `(1, channels, patch, patches * patch)`."""

_GRIDS = ("image_grid_thw", "image_grid_hw")
"""Those that say how many rows of patches an image has; with others it has a row of its own."""

_TEXTS = re.compile(r"(language_model|text_model)\.(\w+\.)*layers\.")
"""Weights that no image goes through."""


@dataclass(frozen=True)
class _Images:
    """The images of a call.

    Attributes:
        rows: one after the other, `(images, ...)`; one of zeros where there are none, since a loop of ONNX Runtime has
            one turn at least.
        count: how many there are.
    """

    rows: Any
    count: Any


def patch_image_method(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a model take any number of images of the sample's size while it is traced."""
    return _forward(original) if original.__name__ == "forward" else _get_image_features(original)


def _get_image_features(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `get_image_features` take any number of images of the sample's size while it is traced."""
    signature = inspect.signature(original)

    def traced(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        names = [name for name in _SIZES if given.get(name) is not None]
        is_unknown = any(sample_value(name) is None for name in (*names, "pixel_values"))
        if is_unknown or given.get("pixel_values_local") is not None or sample_value("pixel_values_videos") is not None:
            # Another way to make a graph, which keeps no sample; or parts of images, or videos, beside the images.
            return original(*args, **kwargs)
        sample = {name: _size_of_all(name) for name in names}
        images = _images(given["pixel_values"], {name: given[name] for name in names}, sample)
        _tell(original, sample)
        given |= {**given.pop("kwargs", {}), **sample}
        return _joined(*_features(original, given, images.rows), images.count)

    return when_traced(original, traced)


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` take the rows of pixels for one row as they are: there may be none."""

    def whole(getitem: Callable[..., Any], tensor: Any, index: Any) -> Any:
        return tensor if index == slice(None, 1) and tensor.dim() == 4 else getitem(tensor, index)

    return run_under(lambda: Override({torch.Tensor.__getitem__: whole}), original)


def _size_of_all(name: str) -> Any:
    """Return the size that every image of the sample has, `(1, ...)`.

    Raises:
        ExportCompatError: they differ.
    """
    with known():
        sizes = sample_value(name)
        if not sizes.shape[0] or not bool((sizes == sizes[:1]).all()):
            raise ExportCompatError(
                f"spec 'image-sizes': {name!r} is {sizes.tolist()}, and a graph is right for images of one size, which "
                "is that of the sample's; export with images of the same size"
            )
        return sizes[:1].clone()


def _tell(original: Callable[..., Any], sample: Mapping[str, Any]) -> None:
    """Write down what the graph is right for: it is an error of the runtime where an image has another size."""
    code = inspect.unwrap(original).__code__
    place = (code.co_filename, code.co_firstlineno, code.co_name, f"def {code.co_name}")
    with known():
        conditions = [f"every row of {name} is {sizes[0].tolist()}" for name, sizes in sample.items()]
    tell_assumptions([Assumption(condition, "number", *place) for condition in conditions])


def _images(pixels: Any, sizes: Mapping[str, Any], sample: Mapping[str, Any]) -> _Images:
    """Take the pixels of a call apart; if an image has another size than the sample's, a look-up is out of range."""
    axis = 3 if _SIDE_BY_SIDE in sample else 0
    each = _length(pixels, sample)
    room = pixels.shape[axis] // each
    count = sizes[_SIDE_BY_SIDE].shape[0] if axis else room
    is_other = _number(pixels, pixels.shape[axis] - room * each) != 0
    for name, rows in sizes.items():
        # Sizes may come without images: `generate` goes on passing them.
        own = rows.index_select(0, torch.arange(count, device=rows.device))
        is_other = is_other | ((own != sample[name]).flatten().sum(0) > 0)
    if axis:
        is_other = is_other | ((_number(pixels, count) != room) & (_number(pixels, count) > 0))
        pixels = torch.cat([pixels, pixels.new_zeros(1, *pixels.shape[1:])]).narrow(0, 0, 1)
    used = pixels.index_select(axis, torch.arange(room * each, device=pixels.device))
    rows = used.unflatten(axis, (room, each)).movedim(axis, 0)
    rows = torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])])
    # Images side by side are there in a call without any, too, as zeros.
    index = torch.arange(room if axis else _one_at_least(pixels, room), device=pixels.device)
    return _Images(rows.index_select(0, torch.where(is_other, room + 1, index)), count)


def _one_at_least(pixels: Any, count: Any) -> Any:
    """Return a number of images, or 1; it is data, since torch takes every size for 1 or more."""
    number = torch.ops.aten._local_scalar_dense(_number(pixels, count).clamp(min=1))
    torch._check(number >= 1)
    return number


def _number(pixels: Any, value: Any) -> Any:
    return torch.full((), value, dtype=torch.int64, device=pixels.device)


def _length(pixels: Any, sample: Mapping[str, Any]) -> int:
    """Return how much of its axis an image of the sample's size takes."""
    with known():
        patches = next((int(sample[name].prod()) for name in (*_GRIDS, _SIDE_BY_SIDE) if name in sample), 1)
    return patches * int(pixels.shape[2]) if _SIDE_BY_SIDE in sample else patches


def _features(original: Callable[..., Any], given: Mapping[str, Any], rows: Any) -> tuple[Any, Any]:
    """Return what the method has found for one image, and the features of all, `(images, features, channels)`.

    A loop takes tensors that are its arguments alone. So weights are given to it, and so are tensors that follow from
    the sizes; which these are is found without recording anything.
    """
    from torch._guards import detect_fake_mode
    from torch._higher_order_ops.scan import scan_op
    from torch.nn.utils.stateless import _reparametrize_module
    from torch.utils._python_dispatch import _disable_current_modes

    model = given["self"]
    weights = {name: item for name, item in _tensors_of(model) if not _TEXTS.match(name)}

    def of_one(image: Any, values: Mapping[str, Any], constants: KnownValues) -> Any:
        with _reparametrize_module(model, dict(values)), left_alone(), constants:
            return original(**{**given, "pixel_values": image})

    def step(nothing: Any, image: Any, *taken: Any) -> list[Any]:
        values = dict(zip(weights, taken[: len(weights)], strict=True))
        found = of_one(image, values, KnownValues(taken[len(weights) :]))
        return [nothing.clone(), torch.cat(list(found.pooler_output)).contiguous()]

    met, mode = KnownValues(), detect_fake_mode()
    with _disable_current_modes(), mode:
        found = of_one(rows[0], weights, met)
    more = (*(item.detach() for item in weights.values()), *(item.clone() for item in met.met))
    return found, scan_op(step, [rows.new_zeros(1)], [rows], more)[1]


def _tensors_of(model: Any) -> Sequence[tuple[str, Any]]:
    return (*model.named_parameters(), *model.named_buffers())


def _joined(found: Any, features: Any, count: Any) -> Any:
    """Return what a method gives for all images; of the zeros that stood for none, nothing is left."""
    kept = features.index_select(0, torch.arange(count, device=features.device))
    return type(found)(pooler_output=[kept.flatten(0, 1)])
