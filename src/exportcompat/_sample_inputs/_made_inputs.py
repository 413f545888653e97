"""Inputs that are made up from a configuration, where a folder has nothing that makes them."""

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import GRIDS
from exportcompat._text_config import text_config
from exportcompat.registry import ExportCompatError

from ._media import tones

_SEED = 0
_TEXT = (2, 8)
"""Sequences and tokens of a made-up text."""
_CHARACTERS = 128
"""Made-up characters are less than this, where a model takes them instead of tokens."""
_IMAGES = ("pixel_values", "pixel_values_images", "flattened_patches", "pixel_values_videos")
_SOUNDS = ("input_values", "input_features")
_SOUND_MASKS = ("input_features_mask", "feature_attention_mask")
_BINS = ("num_mel_bins", "feature_size", "input_feat_per_channel", "feature_projection_input_dim", "input_dim")
"""What configurations call the features of a moment of a sound."""
_PLACEHOLDERS = ("image_token_id", "image_token_index", "media_token_id", "audio_token_id", "audio_token_index")
_SPECIAL = re.compile(r"\w+_token_(id|index)")
_FRAMES = ("num_frames", "frames_per_clip")
"""What configurations call the images of a video."""
_RATE = 16_000
_SIDES = (4, 6)
"""Patches of the sides of an image where a model takes any: even, because models take two by two together."""


def parameters(model: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of `forward` by name."""
    return dict(inspect.signature(model.forward).parameters)


def takes(model: Any, names: tuple[str, ...]) -> str:
    """Return the argument of a model that is one of `names`; its main input if it has several; empty if it has none."""
    main = getattr(getattr(model, "encoder", model), "main_input_name", "")
    found = [name for name in names if name in parameters(model)]
    return main if main in found else next(iter(found), "")


def image_argument(model: Any) -> str:
    """Return the argument for images; empty if the model takes none.

    A vision tower by itself has its patches by another name. A model that is configured without one takes none.
    """
    if getattr(model.config, "vision_config", model) is None:
        return ""
    return takes(model, (*_IMAGES, "hidden_states") if GRIDS[-1] in parameters(model) else _IMAGES)


def sound_argument(model: Any) -> str:
    """Return the argument for sounds; empty if the model takes none, or is configured without what hears them."""
    return "" if getattr(model.config, "audio_config", model) is None else takes(model, _SOUNDS)


def generator() -> Any:
    """Return a generator of random numbers with a fixed seed."""
    return require("torch", "torch").Generator().manual_seed(_SEED)


def tokens(model: Any, batch: int | None = None, *, is_ended: bool = False) -> Any:
    """Return made-up tokens, `(batch, sequence)`, int64; none of them stands for an image.

    Args:
        model: the model.
        batch: how many sequences; None for a few.
        is_ended: the last token of each is that of the end, and no other one is.
    """
    torch = require("torch", "torch")
    config = text_config(model.config)
    count = _vocabulary(model, config)
    found = torch.randint(min(3, count - 1), count, (batch or _TEXT[0], _TEXT[1]), generator=generator())
    special = {value for item in (model.config, config) for value in _special_tokens(item)}
    plain = next((token for token in range(min(3, count - 1), count) if token not in special), 0)
    for token in special:
        found.masked_fill_(found == token, plain)
    end = getattr(config, "eos_token_id", None)
    # CLIP and its kind read the state of the end of a text.
    if (is_ended or hasattr(model, "get_text_features")) and type(end) is int and 0 <= end < count:
        found[:, -1] = end
    return found


def _vocabulary(model: Any, config: Any) -> int:
    size = getattr(config, "vocab_size", None)
    if isinstance(size, int) and size > 0:
        return size
    try:
        return int(model.get_input_embeddings().weight.shape[0])
    except NotImplementedError:
        # CANINE takes the numbers of characters, any of them, and has no table for them.
        return _CHARACTERS


def _special_tokens(config: Any) -> list[int]:
    values = vars(config).items()
    return [value for name, value in values if _SPECIAL.fullmatch(name) and type(value) is int]


def segments(model: Any) -> int:
    """Return how many kinds of segments a text may have; 0 if the configuration does not say."""
    found = getattr(text_config(model.config), "type_vocab_size", 0)
    return found if isinstance(found, int) else 0


def two_segments(ids: Any) -> Any:
    """Return the segment of each token, 0 or 1: a text has two, as questions and their texts have."""
    return (ids.cumsum(1) > ids.sum(1, True) // 2).long()


def completed(model: Any, call: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a made-up call with those arguments of `names` that it lacks and that follow from its tokens."""
    ids = call.get("input_ids")
    if ids is None or ids.dim() != 2:
        return dict(call)
    torch = require("torch", "torch")
    made = {
        "attention_mask": torch.ones_like(ids),
        "position_ids": torch.arange(ids.shape[1]).expand(ids.shape).contiguous(),
        **({"token_type_ids": two_segments(ids)} if segments(model) > 1 else {}),
    }
    wanted = [name for name in made if name in names and name in parameters(model)]
    return {**{name: made[name] for name in wanted}, **call}


def text(model: Any, found: Any) -> dict[str, Any]:
    """Return the arguments of a text, given its tokens."""
    torch = require("torch", "torch")
    made = {"input_ids": found, "attention_mask": torch.ones_like(found)}
    if "bbox" in parameters(model):
        # Boxes of words on a page of 1000 by 1000: left, top, right and bottom.
        box = torch.tensor([100, 200, 300, 400])
        made["bbox"] = box.expand(*found.shape, 4).contiguous()
    return {name: value for name, value in made.items() if name in parameters(model)}


def pixels(model: Any, length: int = 2) -> dict[str, Any]:
    """Return made-up images, float32, as the configuration has their size, and what says how they are laid out.

    Args:
        model: the model.
        length: how many times as wide as it is high an image is, where a model takes any.

    Raises:
        ExportCompatError: the configuration does not say it.
    """
    torch = require("torch", "torch")
    name, config, known = image_argument(model), _vision_config(model.config), parameters(model)
    if name == "flattened_patches":
        return {name: _numbered_patches(config)}
    if "spatial_shapes" in known:
        return _padded_patches(config)
    grid = next((item for item in GRIDS if item in known), "")
    if grid or (hasattr(config, "temporal_patch_size") and hasattr(config, "spatial_merge_size")):
        return _patches(model.config, config, (name, grid or GRIDS[0]), length)
    shape = _image_shape(config)
    pinpoints = getattr(model.config, "image_grid_pinpoints", None)
    if pinpoints and "image_sizes" in known:
        return _tiles(shape, pinpoints)
    several = "pixel_attention_mask" in known
    made = {name: torch.rand((1, 2, *shape) if several else (2, *shape), generator=generator())}
    if _is_needed(model, "image_sizes"):
        made["image_sizes"] = torch.tensor([shape[-2:]] * 2)
    return made


def _is_needed(model: Any, name: str) -> bool:
    """Say whether the features of an image cannot be had without an argument; another tower may not even take it."""
    owner = getattr(model, "model", model)
    taken = inspect.signature(getattr(owner, "get_image_features", model.forward)).parameters
    return name in taken and taken[name].default is inspect.Parameter.empty


def _image_shape(config: Any) -> tuple[int, ...]:
    """Return the shape of an image: frames where there are several, channels, height and width."""
    size = getattr(config, "image_size", None) or getattr(config, "input_size", None)
    if isinstance(size, Mapping):
        size = (size["height"], size["width"])
    if size is None:
        size = getattr(config, "img_size", None) or 32 * _stride(config)
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    frames = [getattr(config, name) for name in _FRAMES if hasattr(config, name)][:1]
    return (*frames, _channels(config), height, width)


def _channels(config: Any) -> int:
    found = (getattr(config, item, None) for item in ("num_channels", "in_channels", "in_chans"))
    return next((item for item in found if isinstance(item, int)), 3)


def _stride(config: Any) -> int:
    return int(getattr(config, "patch_size", None) or 4) if isinstance(getattr(config, "patch_size", 4), int) else 4


def _vision_config(config: Any) -> Any:
    for name in ("vision_config", "encoder", "backbone_config"):
        inner = getattr(config, name, None)
        if inner is not None and not hasattr(config, "image_size") and hasattr(inner, "to_dict"):
            return inner
    return config


def _patches(whole: Any, config: Any, names: tuple[str, str], length: int) -> dict[str, Any]:
    """Return an image as rows of patches, `(patches, features)`, and its size in patches, as Qwen2-VL takes them."""
    torch, (name, grid) = require("torch", "torch"), names
    merged = (getattr(item, name, None) for item in (config, whole) for name in ("spatial_merge_size", "merge_size"))
    side = 2 * next((item for item in merged if isinstance(item, int)), 2)
    frames = (getattr(config, item, None) for item in ("temporal_patch_size", "patch_temporal"))
    features = _channels(config) * next((item for item in frames if item), 1) * config.patch_size**2
    rows = torch.rand(side * length * side, features, generator=generator())
    sizes = [[1, side, length * side]] if grid.endswith("thw") else [[side, length * side]]
    return {name: rows, grid: torch.tensor(sizes)}


def _padded_patches(config: Any) -> dict[str, Any]:
    """Return images as rows of patches, `(batch, patches, features)`, and their sizes, as SigLIP 2 takes them."""
    torch = require("torch", "torch")
    features, (height, width) = _channels(config) * config.patch_size**2, _SIDES
    rows = torch.rand(2, height * width, features, generator=generator())
    mask = torch.ones(rows.shape[:2], dtype=torch.int64)
    return {
        "pixel_values": rows,
        "pixel_attention_mask": mask,
        "spatial_shapes": torch.tensor([_SIDES] * 2),
    }


def _numbered_patches(config: Any) -> Any:
    """Return images as rows of patches, `(batch, patches, 2 + features)`: each begins with its row and its column."""
    torch = require("torch", "torch")
    height, width = _SIDES
    places = torch.cartesian_prod(torch.arange(1.0, height + 1), torch.arange(1.0, width + 1))
    patch = getattr(config, "patch_size", None)
    features = config.patch_embed_hidden_size if patch is None else _channels(config) * patch**2
    rows = torch.rand(2, height * width, features, generator=generator())
    return torch.cat([places.expand(2, -1, -1), rows], 2)


def _tiles(shape: tuple[int, ...], pinpoints: Any) -> dict[str, Any]:
    """Return an image as a small one of the whole and a tile for each part, and its size, as LLaVA-NeXT takes them."""
    torch = require("torch", "torch")
    height, width = min((tuple(item) for item in pinpoints), key=lambda item: (item[0] * item[1], item))
    count = (height // shape[-2]) * (width // shape[-1])
    tiles = torch.rand(1, 1 + count, *shape, generator=generator())
    return {"pixel_values": tiles, "image_sizes": torch.tensor([[height, width]])}


def sound(model: Any) -> list[dict[str, Any]]:
    """Return made-up sounds: samples of two lengths, or features as long as an encoder takes them.

    Raises:
        ExportCompatError: the configuration does not say how many features there are.
    """
    torch = require("torch", "torch")
    name, config = sound_argument(model), _sound_config(model.config)
    if name == "input_values" and _length(config) is None:
        # What codes sounds and decodes them takes them with channels, of which it has one.
        is_codec = hasattr(model, "encode") or hasattr(config, "audio_channels")
        lengths, channels = (_RATE, int(0.7 * _RATE)), (1,) if is_codec else ()
        sounds = [torch.from_numpy(tones(length, _RATE)).expand(2, *channels, length) for length in lengths]
        return [{name: item.contiguous()} for item in sounds]
    bins = next((value for item in _BINS if isinstance(value := getattr(config, item, None), int)), None)
    if bins is None:
        raise ExportCompatError(
            f"the configuration of {type(model).__name__} does not say how many features {name!r} has; give --audio "
            "and a folder with a feature extractor, or --inputs FILE.npz"
        )
    # Whisper and its kin have the features first, and as many moments as its encoder has positions.
    is_fixed = hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins")
    frames = 2 * config.max_source_positions if is_fixed else _frames(config, bins)
    # A model that asks which sounds are longer than its window takes several parts of a sound, here one.
    parts = (1,) if "is_longer" in parameters(model) else ()
    shape = (2, bins, frames) if is_fixed else (2, *parts, frames, bins)
    made = {name: torch.randn(shape, generator=generator())}
    masks = [item for item in _SOUND_MASKS if item in parameters(model)]
    return [{**made, **{mask: torch.ones(2, frames, dtype=torch.int64) for mask in masks}}]


def _frames(config: Any, bins: int) -> int:
    """Return the moments of a made-up sound."""
    side = getattr(config, "spec_size", None)
    # Where the features are laid out as a square image, there are as many moments as fill it.
    return (_length(config) or 100) if side is None else side * (side // bins)


def _length(config: Any) -> int | None:
    """Return how many moments every sound has; None if its class does not say.

    Releases before 5.0 keep the length of what is generated, 20, by the same name in every configuration.
    """
    is_declared = "max_length" in inspect.signature(type(config).__init__).parameters
    found = getattr(config, "max_length", None) if is_declared else None
    return None if found is None else int(found)


def _sound_config(config: Any) -> Any:
    """Return the part of a configuration that says what sounds are like."""
    inner = (getattr(config, item, None) for item in ("audio_config", "encoder_config", "encoder"))
    return next((item for item in inner if hasattr(item, "to_dict")), config)


def placeholder(model: Any) -> int | None:
    """Return the token that stands for an image or a sound in a text; None if there is none."""
    return next((token for name in _PLACEHOLDERS if (token := getattr(model.config, name, None)) is not None), None)


def series(model: Any) -> dict[str, Any]:
    """Return a made-up series, float32, and what goes with it.

    It is `(batch, time, channels)`, or `(batch, time)` where the configuration has no number of channels, or where
    lags are taken of a single one.
    """
    torch, config, known = require("torch", "torch"), model.config, parameters(model)
    lags = max(getattr(config, "lags_sequence", None) or [0])
    length = int(config.context_length) + lags
    size = getattr(config, "num_input_channels", None) or getattr(config, "input_size", None)
    channels = () if size is None or (hasattr(config, "lags_sequence") and size == 1) else (size,)
    made = {"past_values": torch.rand(2, length, *channels, generator=generator())}
    made["past_observed_mask"] = torch.ones_like(made["past_values"])
    times = int(getattr(config, "num_time_features", 0) or 0)
    made["past_time_features"] = torch.rand(2, length, times, generator=generator())
    ahead = int(getattr(config, "prediction_length", 0) or 0)
    made["future_values"] = torch.rand(2, ahead, *channels, generator=generator())
    made["future_time_features"] = torch.rand(2, ahead, times, generator=generator())
    if not hasattr(config, "lags_sequence"):
        made = {"past_values": made["past_values"]}
    return {name: value for name, value in made.items() if name in known}
