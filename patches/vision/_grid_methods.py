"""Vision towers that compute what depends on the sizes of images from tensors, while they are traced."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.tracing import is_traced
from exportcompat.registry import Unchanged

from ._patch_coordinates import corners, find_patch_coordinates, frame_ends, frame_lengths, window_order
from ._tower_context import counting, patch_count


def patch_grid_method(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Compute a vision encoder's `forward`, or a method or function that it uses, without a loop.

    Other methods, which happen to mention such a function, stay as they are.
    """
    factory = _FACTORIES.get(original.__name__)
    return Unchanged("it only names a function of grids") if factory is None else factory(original)


def _vision_encoder(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    signature = inspect.signature(original)
    if not any(name.endswith("grid_thw") for name in signature.parameters):
        return Unchanged("it takes no grids")

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        sizes = next((value for name, value in given.items() if name.endswith("grid_thw")), None)
        rows = next(value for value in list(given.values())[1:] if isinstance(value, torch.Tensor))
        if sizes is None or not is_traced(rows):
            return original(self, *args, **kwargs)
        # Some towers have a first axis of size 1.
        with counting(rows.shape[1 if rows.dim() > 2 and type(rows.shape[0]) is int else 0]), _Frames(sizes):
            return original(self, *args, **kwargs)

    return forward


def _method(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a factory of methods that take the sizes and are computed by `compute(self, sizes, count)`."""

    def factory(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
        if list(inspect.signature(original).parameters) != ["self", "grid_thw"]:
            return Unchanged("it takes more than the grids")

        def method(self: Any, grid_thw: Any) -> Any:
            count = patch_count()
            return original(self, grid_thw) if count is None else compute(self, grid_thw, count)

        return method

    return factory


def _angles(self: Any, sizes: Any, count: Any) -> Any:
    """Return the rotary angles of rows and columns, `(patches, head_dim / 2)`."""
    places, frequencies = find_patch_coordinates(sizes, count, self.spatial_merge_size), self.rotary_pos_emb.inv_freq
    positions = torch.stack([places.row, places.column], -1).to(frequencies.dtype)
    return (positions[:, :, None] * frequencies).flatten(1)


def _windows(self: Any, sizes: Any, count: Any) -> tuple[Any, Any]:
    side = self.window_size // self.spatial_merge_size // self.patch_size
    return window_order(sizes, count, self.spatial_merge_size, side)


def _embeddings(self: Any, sizes: Any, count: Any) -> Any:
    """Return the position embeddings, mixed from those of a table, `(patches, hidden)`."""
    indices, weights = corners(sizes, count, self.config.spatial_merge_size, self.num_grid_per_side)
    table = self.pos_embed.weight
    return (table[indices] * weights.to(table.dtype)[:, :, None]).sum(0)


def _function(compute: Callable[[Any, Mapping[str, Any]], dict[str, Any]]) -> Callable[..., Any]:
    """Return a factory of functions that find in their `kwargs` what `compute(count, arguments)` returns.

    It is upstream's own way to hand over what was computed before.
    """

    def factory(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def function(grid_thw: Any, *args: Any, **kwargs: Any) -> Any:
            given = signature.bind(grid_thw, *args, **kwargs).arguments
            count, known = patch_count(), given.get("kwargs") or {}
            if count is None:
                return original(**given)
            found = compute(count, given)
            if not all(known.get(name) is None for name in found):
                return original(**given)
            return original(**{**given, "kwargs": found})

        return function

    return factory


def _ends_of_frames(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"cu_seqlens": frame_ends(given["grid_thw"], count, given.get("merge_temporal", False))}


def _positions(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    places = find_patch_coordinates(given["grid_thw"], count, given["spatial_merge_size"])
    frame = [places.frame] if given.get("include_temporal") else []
    return {"position_ids": torch.stack([*frame, places.row, places.column], -1)}


def _window_index(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    merge = given["spatial_merge_size"]
    side = given["window_size"] // merge // given["patch_size"]
    return dict(
        zip(("window_index", "cu_window_seqlens"), window_order(given["grid_thw"], count, merge, side), strict=True)
    )


def _corners(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    indices, weights = corners(given["grid_thw"], count, given["spatial_merge_size"], given["num_grid_per_side"])
    return {"bilinear_indices": indices, "bilinear_weights": weights}


def _of_frames(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of the frame of each patch of a video, from 1 on, and 0 for those of images."""
    sizes = given["grid_thw"]
    places = find_patch_coordinates(sizes, count)
    return {"frame_index": torch.where(sizes[places.image, 0] == 1, 0, places.frame + 1)}


def _averaged_frames(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return where each patch goes if the frames of a video become one, its share of it, and how many merged ones."""
    sizes, height, width = given["grid_thw"], given["kernel_height"], given["kernel_width"]
    places, cells = find_patch_coordinates(sizes, count), sizes[:, 1] // height * (sizes[:, 2] // width)
    before = (cells.cumsum(0) - cells)[places.image]
    cell = before + places.row // height * (places.width // width) + places.column // width
    inside = places.row % height * width + places.column % width
    # Not with `item`, which has another answer while the images of a model are traced.
    number = torch.ops.aten._local_scalar_dense(cells.sum())
    torch._check(number >= 1)
    return {"temporal_merge_index": (cell * height * width + inside, 1 / sizes[places.image, 0].float(), number)}


def _shuffled(count: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the order of patches, row by row in each frame, in which those that are merged follow each other."""
    places = find_patch_coordinates(given["grid_thw"], count, given["merge_size"])
    first = torch.arange(count, device=places.rank.device) - places.rank
    return {"pixel_shuffle_index": first + places.row * places.width + places.column}


def _interpolation(original: Callable[..., Any]) -> Callable[..., Any]:
    def function(grid_thw: Any, *args: Any, **kwargs: Any) -> Any:
        count = patch_count()
        if count is None:
            return original(grid_thw, *args, **kwargs)
        with _PerPatch(grid_thw, count):
            return original(grid_thw, *args, **kwargs)

    return function


class _Frames(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Let a tower compute the ends of frames, which upstream does from as many numbers as there are frames."""

    def __init__(self, sizes: Any) -> None:
        super().__init__()
        self._sizes = sizes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.repeat_interleave and isinstance(args[1], torch.Tensor):
            return frame_lengths(self._sizes, patch_count())
        if func is torch.unique_consecutive:
            return args[0]
        if func is torch.tensor and isinstance(args[0], torch.Tensor):
            return args[0].to(**kwargs)
        return func(*args, **kwargs)


class _PerPatch(TorchFunctionMode):  # type: ignore[misc]
    """Repeat what there is for each image as often as it has patches; their number is known."""

    def __init__(self, sizes: Any, count: Any) -> None:
        super().__init__()
        self._image = find_patch_coordinates(sizes, count).image
        self._count = count

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.repeat_interleave:
            return args[0][self._image]
        if func is torch.arange and isinstance(args[0], torch.Tensor):
            args = (self._count,)
        return func(*args, **(kwargs or {}))


_FACTORIES: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any] | Unchanged]] = {
    "forward": _vision_encoder,
    "rot_pos_emb": _method(_angles),
    "get_window_index": _method(_windows),
    "fast_pos_embed_interpolate": _method(_embeddings),
    "get_vision_cu_seqlens": _function(_ends_of_frames),
    "get_vision_attention_seqlens": _function(_ends_of_frames),
    "get_vision_position_ids": _function(_positions),
    "get_vision_window_index": _function(_window_index),
    "get_vision_bilinear_indices_and_weights": _function(_corners),
    "get_vision_interpolation_indices_and_weights": _interpolation,
    "get_vision_frame_index": _function(_of_frames),
    "get_vision_temporal_merge_index": _function(_averaged_frames),
    "get_vision_pixel_shuffle_index": _function(_shuffled),
}
