"""The way of features into a text, as a graph can have it: split by image, counted, put in their places."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from exportcompat.patches.toolkit.function_modes import run_under
from exportcompat.patches.toolkit.tracing import is_traced
from exportcompat.registry import Unchanged

SPLITTING = ("split_sizes", "num_real_images_per_batch", "real_images_inds")
"""Names in the code of methods that split the features of all images, for others to put them together again."""

COUNTING = ("n_image_tokens", "n_video_tokens", "n_audio_tokens", "n_image_tokens_in_text")
"""Names in the code of methods that compare the number of placeholders with that of features, to 4.54."""

GRIDS = "image_grid_thw"
"""A name in the code of models whose images have sizes of their own: they have specs of their own, `vision-...`."""


def patch_feature_merge(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make a method split, count and place features without a question on data while it is traced."""
    code = inspect.unwrap(original).__code__
    names = {*code.co_names, *code.co_varnames}
    if GRIDS in names:
        return Unchanged("its images have sizes of their own, which is mended for each model")
    if code.co_name == "inputs_merger":
        return _placing(original)
    if "legacy_processing" in names and "audio_features_mask" in names:
        return run_under(_Expanded, original)
    if "past_seen_tokens" in names and "inputs_merger" in names:
        original = _from_the_start(original)
    return run_under(_mode(names), original)


def _mode(names: set[str]) -> Callable[[], TorchFunctionMode]:
    """Return what a method is run under, given the names in its code."""
    if "real_images_inds" in names:
        return _Masking
    if "visual_indicator_id" in names:
        return _Marking
    if names & set(SPLITTING):
        return _Splitting
    return _Counting if names & set(COUNTING) else _Merging


def _placing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Idefics' method for this very purpose, which has been written in many ways."""

    def inputs_merger(self: Any, input_ids: Any, inputs_embeds: Any, image_hidden_states: Any) -> Any:
        if input_ids is None or not is_traced(inputs_embeds):
            return original(self, input_ids, inputs_embeds, image_hidden_states)
        return placed(inputs_embeds, input_ids == self.image_token_id, image_hidden_states)

    return inputs_merger


def _from_the_start(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Idefics' `forward`, to 4.53, that takes every call for the first one: others are without images.

    Upstream puts features into a text if the past is empty, and a past in a graph has any length.
    """
    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        cache, tokens = given.get("past_key_values"), given.get("input_ids")
        if cache is None or tokens is None or not is_traced(tokens):
            return original(self, *args, **kwargs)

        def get_seq_length(*_: Any) -> int:
            # The text model asks, too, and is told the truth.
            del vars(cache)["get_seq_length"]
            return 0

        vars(cache)["get_seq_length"] = get_seq_length
        try:
            return original(self, *args, **kwargs)
        finally:
            vars(cache).pop("get_seq_length", None)

    return forward


_REDUCTIONS = tuple(
    getattr(owner, name) for owner in (Tensor, torch) for name in ("sum", "mean", "any", "all", "amax", "amin", "prod")
)


class _Merging(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
    """Place features by their number, and take it that they are as many as their places; `placed` makes sure."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = {
            Tensor.masked_scatter: self._scattered,
            torch.masked_scatter: self._scattered,
            Tensor.__getitem__: self._picked,
            # ONNX has no `_is_all_true`.
            Tensor._is_all_true: Tensor.all,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = self._answers.get(func)
        if func in _REDUCTIONS:
            args, kwargs = _counted_from_the_first(args, kwargs or {})
        result = NotImplemented if answer is None else answer(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {})) if result is NotImplemented else result

    def _scattered(self, embeddings: Any, mask: Any, features: Any) -> Any:
        is_row = mask.dim() == embeddings.dim() == 3 and (mask.shape[-1] == 1 or mask.stride(-1) == 0)
        if not is_row or features.shape[-1] != embeddings.shape[-1]:
            return NotImplemented
        return placed(embeddings, mask[..., 0], features)

    def _picked(self, tensor: Any, mask: Any) -> Any:
        is_bool = isinstance(mask, Tensor) and mask.dtype == torch.bool
        return _Rows(tensor, mask) if is_bool and mask.dim() == tensor.dim() == 3 else NotImplemented


class _Counting(_Merging):
    """Besides, take it that placeholders that were counted are as many as features."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: list[Any] = []
        self._answers |= {
            Tensor.sum: self._counted,
            Tensor.item: lambda tensor: _Number() if self._is_count(tensor) else NotImplemented,
            Tensor.ne: self._differs,
            Tensor.__ne__: self._differs,
        }

    def _counted(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = tensor.sum(*args, **kwargs)
        self._counts += [result] if tensor.dtype == torch.bool else []
        return result

    def _differs(self, tensor: Any, other: Any) -> Any:
        return False if self._is_count(tensor) and isinstance(other, torch.SymInt) else NotImplemented

    def _is_count(self, tensor: Any) -> bool:
        return any(tensor is count for count in self._counts)


class _Expanded(_Counting):
    """Besides, take it that a text has a placeholder for each feature, and not one for each sound.

    A text of the older kind has fewer placeholders than features, which `placed` refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self._answers |= {Tensor.eq: self._compared, Tensor.__eq__: self._compared}

    def _compared(self, tensor: Any, other: Any) -> Any:
        return False if self._is_count(tensor) and type(other) is int and other == 0 else NotImplemented


class _Splitting(_Merging):
    """Besides, leave the features of all images in one piece: nothing is split by sizes that are data."""

    def __init__(self) -> None:
        super().__init__()
        self._answers |= {
            Tensor.split: _unsplit,
            torch.split: _unsplit,
            # `list` of the features of all images asks how many there are, and takes them apart; so does `tolist`.
            Tensor.__len__: lambda tensor: 1 if _is_open(tensor) else NotImplemented,
            Tensor.unbind: _unbound,
        }


class _Masking(_Splitting):
    """Besides, never leave out the mask of the patches of images: that there is none to mask is not known."""

    def __init__(self) -> None:
        super().__init__()
        self._asked: list[Any] = []
        self._answers |= {
            torch.any: self._any,
            # SmolVLM keeps the first image if all of them are empty, and here there may be no first one.
            Tensor.__setitem__: lambda tensor, index, _: None if _is_first(tensor, index) else NotImplemented,
            Tensor.__bool__: lambda tensor: any(tensor is asked for asked in self._asked) or NotImplemented,
        }

    def _picked(self, tensor: Any, mask: Any) -> Any:
        return tensor.any() if _is_first(tensor, mask) else super()._picked(tensor, mask)

    def _any(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        self._asked.append(torch.any(tensor, *args, **kwargs))
        return self._asked[-1]


class _Marking(_Merging):
    """Besides, write the rows of the tokens around images without asking if there are such tokens.

    Ovis2 does so in calls with images alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._count: Any = None
        self._answers |= {
            Tensor.any: lambda mask, *args, **kwargs: True if _is_tokens(mask) and not args else NotImplemented,
            Tensor.__setitem__: self._written,
        }

    def _scattered(self, embeddings: Any, mask: Any, features: Any) -> Any:
        self._count = torch.full((), features.shape[0], dtype=torch.int64, device=features.device)
        return super()._scattered(embeddings, mask, features)

    def _picked(self, tensor: Any, mask: Any) -> Any:
        # To 5.11 a row is made as many as are picked; one is enough.
        return tensor[0, :1] if _is_tokens(mask) else super()._picked(tensor, mask)

    def _written(self, tensor: Any, index: Any, row: Any) -> Any:
        if not _is_tokens(index):
            return NotImplemented
        return tensor.copy_(torch.where(index[..., None] & (self._count > 0), row, tensor))


def _is_tokens(mask: Any) -> bool:
    return isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.dim() == 2


def _is_first(tensor: Any, index: Any) -> bool:
    """Say whether what is asked for is the first of the answers for each image."""
    return type(index) is int and index == 0 and tensor.dtype == torch.bool and tensor.dim() == 1


def _counted_from_the_first(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a reduction with axes that are not counted from the last one.

    ONNX Runtime reduces nothing along a negative axis of a tensor without elements, and returns another shape.
    """
    has_place = len(args) > 1
    dim = args[1] if has_place else kwargs.get("dim")
    if not args or type(dim) not in (int, tuple, list) or not args[0].dim():
        return args, kwargs
    rank = args[0].dim()
    axes = dim % rank if isinstance(dim, int) else [axis % rank for axis in dim]
    return ((args[0], axes, *args[2:]), kwargs) if has_place else (args, {**kwargs, "dim": axes})


def placed(embeddings: Any, mask: Any, features: Any) -> Any:
    """Return embeddings with features in the marked places; without features they are left as they are.

    If there are features, and not as many as places, an index is out of range: it is an error of the runtime.

    Args:
        embeddings: `(batch, sequence, channels)`.
        mask: the places, `(batch, sequence)`, bool.
        features: `(..., channels)`.
    """
    rows = features.reshape(-1, embeddings.shape[-1]).to(embeddings.dtype)
    flat = mask.reshape(-1)
    count = torch.full((), rows.shape[0], dtype=torch.int64, device=flat.device)
    is_taken = flat & (count > 0)
    # The row behind the last one is zeros, so that there is one to pick if there are no features.
    index = torch.where(is_taken, flat.long().cumsum(0) - 1, count)
    index = torch.where((count > 0) & (flat.sum() != count), count + 1, index)
    padded = torch.cat([rows, rows.new_zeros(1, rows.shape[-1])])
    picked = padded.index_select(0, index).reshape(embeddings.shape)
    return torch.where(is_taken.reshape(mask.shape)[..., None], picked, embeddings)


def _places(mask: Any, count: Any) -> Any:
    """Return where the marks of a mask are, `(count,)`; those behind the last of `count` are left out."""
    order = torch.where(mask, mask.long().cumsum(0) - 1, count).clamp(max=count)
    places = torch.arange(mask.shape[0], device=mask.device)
    return torch.zeros(count + 1, dtype=torch.int64, device=mask.device).scatter(0, order, places)[:count]


class _Rows:
    """What a mask picks; its number is known to agree with any other, and nothing else is."""

    def __init__(self, tensor: Any, mask: Any) -> None:
        self._parts = tensor, mask

    def numel(self) -> "_Number":
        """Return a number that is equal to each."""
        return _Number()

    def __add__(self, features: Any) -> Any:
        """Return features with what stands in their places added, `(features, channels)`, as Molmo 2 adds them."""
        tensor, mask = self._parts
        rows = features.reshape(-1, tensor.shape[-1])
        return rows + tensor.flatten(0, 1)[_places(mask[..., 0].flatten(), rows.shape[0])]

    def __getattr__(self, name: str) -> Any:
        tensor, mask = self._parts
        return getattr(tensor.masked_select(mask), name)


class _Number:
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]  # What is equal to everything has no hash.


class _Yes:
    """What stands for all elements of a mask, where it is asked if there is one at all."""

    def __bool__(self) -> bool:
        return True


class _Whole:
    """The sizes of all images, whose number a graph does not know; they are good for a split alone."""

    def item(self) -> "_Whole":
        """Return what stands for every size."""
        return self

    def __mul__(self, _: Any) -> "_Whole":
        return self

    __floordiv__ = __mul__


def _unsplit(tensor: Any, split_size: Any, dim: int = 0) -> Any:
    is_whole = isinstance(split_size, (list, tuple)) and any(isinstance(size, _Whole) for size in split_size)
    return (tensor,) if is_whole and dim == 0 else NotImplemented


def _unbound(tensor: Any, dim: int = 0) -> Any:
    if dim != 0 or not isinstance(tensor.shape[0], torch.SymInt):
        return NotImplemented
    if tensor.dim() == 1 and not tensor.is_floating_point():
        return (_Yes() if tensor.dtype == torch.bool else _Whole(),)
    if tensor.dim() == 2 and not tensor.is_floating_point():
        # Height and width of each image, from which the number of its features is computed.
        return ([_Whole()] * 2,) if tensor.shape[1] == 2 else NotImplemented
    return (tensor.flatten(0, 1),) if _is_open(tensor) else NotImplemented


def _is_open(tensor: Any) -> bool:
    """Say whether a tensor holds the features of any number of images, `(images, tokens, channels)`."""
    return tensor.dim() == 3 and tensor.is_floating_point() and isinstance(tensor.shape[0], torch.SymInt)
