"""Make a configuration small by general rules, and by what a few types need beside them."""

import inspect
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from exportcompat._extras import parse_toml, require

Fields = dict[str, Any]

_WHOLE = "whole"
WIDTHS = ("narrow", "short", _WHOLE)
"""The sets of rules, in the order in which they are tried: every size, layers and vocabularies, vocabularies alone."""

_DROPPED = (
    "transformers_version",
    "_name_or_path",
    "architectures",
    "torch_dtype",
    "dtype",
    "quantization_config",
    "_attn_implementation_autoset",
    "id2label",
    "label2id",
)
_UNDECLARED = {"rope_scaling", "out_features", "out_indices"}
"""What classes take that do not declare it: those of positions, and of models that give the states of some layers."""
_TOKEN = re.compile(r"(?!\w*per_token)\w*(_token_id|_token_index|_token_ids|_token|_id)s?")
_PLACEHOLDERS = {"image": 250, "video": 251, "audio": 252}
"""Tokens for what stands for an image, a video or a sound, where the default configuration has none."""
_PLACEHOLDER = re.compile(r"(image|video|audio)_token_(id|index)")
_STAGE = re.compile(r"stage(\d+)")
_ROPE, _OUTSIDE = "rope_parameters", ("rope_type", "rope_theta", "partial_rotary_factor")
_VOCABULARY = 256
_MOST_LAYERS = 6
_PATCHES, _LEAST_SIDE = 8, 64
"""Patches of a side of an image, and the shortest side: models of images halve it some times."""


@lru_cache(maxsize=1)
def rules() -> dict[str, Any]:
    """Return what `rules.toml` says."""
    return parse_toml(Path(__file__).with_name("rules.toml").read_text("utf-8"))


def small_config(model_type: str, width: str, task: str = "") -> Any:
    """Return a small configuration of a type.

    Args:
        model_type: as in a `config.json`.
        width: one of `WIDTHS`.
        task: what the model is for.

    Raises:
        Exception: the type has no default configuration, or refuses the small one.
    """
    auto = require("transformers.models.auto.configuration_auto", "transformers")
    kind = auto.CONFIG_MAPPING[model_type]
    own: dict[str, Fields] = rules()["types"].get(model_type, {})
    given = {**own.get("given", {}), **_of_release(kind, own, "given_known")}
    # Some classes take the type out of what they are given.
    default: Any = kind(**deepcopy(_without_left_out(given)))
    beside: Fields = merged(merged(given, own.get("all", {})), _of_release(kind, own) | own.get(width, {}))
    wanted = rules()["tasks"].get(task, {})
    for_task = {name: value for name, value in wanted.get("known", {}).items() if hasattr(default, name)}
    for_task |= wanted.get("always", {})
    fields = of_release(default, merged(merged(_shrunk(default, width), for_task), beside))
    config = kind(**deepcopy(_without_left_out(fields)))
    _fill_in(config, wanted.get("missing", {}))
    return config


def _of_release(kind: Any, own: Mapping[str, Fields], table: str = "known") -> Fields:
    """Return the fields that a type needs where its class has them: releases say the same by different ones."""
    return {name: value for name, value in own.get(table, {}).items() if _known(kind)(name)}


def of_release(config: Any, fields: Mapping[str, Any]) -> Fields:
    """Return fields as the class of a configuration has them: the rope of older releases has another name.

    Args:
        config: of the class, with configurations in it.
        fields: nested ones are tables.
    """
    found: Fields = {}
    for name, value in fields.items():
        inner = vars(config).get(name)
        if name == _ROPE and not hasattr(config, name):
            found["rope_scaling"] = _older_rope(value)
        elif isinstance(value, Mapping) and hasattr(inner, "to_dict"):
            found[name] = of_release(inner, value)
        else:
            found[name] = value
    return found


def _older_rope(rope: Mapping[str, Any]) -> Fields:
    """Return a rope as it was described before; what is in the configuration itself there is left out."""
    others = {name: value for name, value in rope.items() if name not in _OUTSIDE}
    # The default one is read by its new name there too, and the others are not by all.
    name = "rope_type" if rope["rope_type"] == "default" else "type"
    return {name: rope["rope_type"], **others}


def _fill_in(config: Any, missing: Fields) -> None:
    """Set fields of the configuration of a text that are None."""
    text = config.get_text_config()
    for name, value in missing.items():
        if getattr(text, name, None) is None:
            setattr(text, name, value)


def merged(fields: Mapping[str, Any], others: Mapping[str, Any]) -> Fields:
    """Return fields with others instead of or beside them; tables are merged."""
    found = dict(fields)
    for name, value in others.items():
        inner = found.get(name)
        both = isinstance(value, Mapping) and isinstance(inner, Mapping)
        found[name] = merged(dict(inner or {}), value) if both else value
    return found


def _shrunk(config: Any, width: str) -> Fields:
    """Return the fields of a configuration, small; those that its class computes are left to it."""
    known = _known(type(config))
    kept = {name: value for name, value in config.to_dict().items() if name not in _DROPPED and known(name)}
    kept, counted = (kept, "") if width == _WHOLE else _fewer_layers(kept)
    inner = {name: vars(config).get(name) for name in kept}
    small = {
        name: _inner(inner[name], width)
        if hasattr(inner[name], "to_dict")
        else value
        if name == counted
        else _field(name, value, width)
        for name, value in kept.items()
    }
    small = _with_scaled_tiles(_consistent(small, kept), kept)
    return small if width == _WHOLE else _with_fewer_patches(small)


def _inner(config: Any, width: str) -> Fields:
    """Return the fields of a configuration in another one, with what its own type needs."""
    own: dict[str, Fields] = rules()["types"].get(config.model_type, {})
    fields = merged(merged(_shrunk(config, width), own.get("all", {})), own.get(width, {}))
    return {**_without_left_out(fields), "model_type": config.model_type}


def _without_left_out(fields: Mapping[str, Any]) -> Fields:
    """Return fields without those that the rules leave to their class, at any depth; "nothing" is None."""
    return {
        name: _without_left_out(value) if isinstance(value, Mapping) else None if _is(value, "nothing") else value
        for name, value in fields.items()
        if not _is(value, "left out")
    }


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _known(kind: Any) -> Callable[[str], bool]:
    """Return what says whether the class of a configuration takes a field, by either of its names."""
    aliases = getattr(kind, "attribute_map", {})
    taken = set(getattr(kind, "__dataclass_fields__", None) or inspect.signature(kind.__init__).parameters)
    # Of two configurations, an encoder's and a decoder's, older classes declare neither; of some it is a property.
    inner = getattr(kind, "sub_configs", {})
    taken |= set(inner) if isinstance(inner, Mapping) else set()
    taken |= {name for pair in aliases.items() if taken & set(pair) for name in pair} | _UNDECLARED
    return taken.__contains__


def _consistent(small: Fields, before: Mapping[str, Any]) -> Fields:
    """Return fields whose heads go together: as many keys as queries where there were, and sizes that are left out."""
    heads, groups = small.get("num_attention_heads"), small.get("num_key_value_heads")
    if heads and groups and before["num_attention_heads"] == before["num_key_value_heads"]:
        small["num_key_value_heads"] = heads
    if isinstance(heads, int) and "num_key_value_heads" in small and groups is None:
        small["num_key_value_heads"] = heads
    if isinstance(heads, int) and "head_dim" in small and small["head_dim"] is None and small.get("hidden_size"):
        small["head_dim"] = small["hidden_size"] // heads
    return small


def _with_fewer_patches(small: Fields) -> Fields:
    """Return fields whose images have as few patches as tell: their count is a length of sequences.

    It is even: models that take four patches together have no use for others.
    """
    side, patch = _one(small.get("image_size")), _one(small.get("patch_size"))
    if side and patch > 1:
        fewest = max(_PATCHES * patch, _LEAST_SIDE // patch * patch)
        found = fewest if side // patch % 2 or side > fewest else side
        small["image_size"] = [found, found] if _is_list(small["image_size"]) else found
    return small


def _with_scaled_tiles(small: Fields, before: Mapping[str, Any]) -> Fields:
    """Return fields whose images have as many tiles as before, of the smaller side that a tile has now."""
    sides = [_one(_side(fields.get("vision_config"))) for fields in (small, before)]
    if all(sides) and small.get("image_grid_pinpoints"):
        now, then = sides
        small["image_grid_pinpoints"] = [
            [max(1, round(length / then)) * now for length in item] for item in before["image_grid_pinpoints"]
        ]
    return small


def _side(config: Any) -> Any:
    """Return the size of images, of a configuration or of its fields."""
    return config.get("image_size") if isinstance(config, Mapping) else getattr(config, "image_size", None)


def _one(value: Any) -> int:
    """Return a number, or the one that a list has twice; 0 for anything else."""
    if _is_list(value) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    return value if type(value) is int else 0


def _field(name: str, value: Any, width: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _field(str(key), item, width) for key, item in value.items()}
    if _TOKEN.fullmatch(name):
        kind = _PLACEHOLDER.fullmatch(name) if value is None else None
        return _PLACEHOLDERS[kind[1]] if kind else _token(value)
    if isinstance(value, bool) or value is None:
        return value
    rule: Fields = next((rule for rule in rules()[width] if re.fullmatch(rule["fields"], name)), {})
    if "most" in rule:
        return _capped(value, rule["most"])
    return rule.get("set", value)


def _capped(value: Any, most: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [_capped(item, most) for item in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return min(value, most) if is_number else value


def _token(value: Any) -> Any:
    """Return a token that the small vocabulary has; different ones of the large vocabulary stay different, mostly."""
    if isinstance(value, (list, tuple)):
        return [_token(item) for item in value]
    is_large = isinstance(value, int) and value >= _VOCABULARY - 64
    return _VOCABULARY - 64 + value % 61 if is_large else value


def _fewer_layers(fields: Fields) -> tuple[Fields, str]:
    """Return fields of a model with a layer of each kind, and the name of the count of layers that was cut.

    Lists with an item for each layer are cut alike, and so are tables by the number of a layer.
    """
    for name in rules()["layer_counts"]:
        count = fields.get(name)
        if isinstance(count, int) and count > 2 and not isinstance(count, bool):
            listed = {key: value for key, value in fields.items() if _is_list(value) and len(value) == count}
            tables = {key: value for key, value in fields.items() if _is_by_layer(value, count)}
            chosen = _staged(fields, count) or _of_each_kind(
                count, [*listed.values(), *(_as_list(item, count) for item in tables.values())]
            )
            cut = {key: [value[index] for index in chosen] for key, value in listed.items()}
            cut_tables = {key: _renumbered(value, chosen) for key, value in tables.items()}
            staged = _with_stages(fields, chosen) if _staged(fields, count) else {}
            return {**fields, **cut, **cut_tables, **staged, name: len(chosen)}, name
    return fields, ""


def _staged(fields: Fields, count: int) -> list[int]:
    """Return the layers whose states a backbone gives, where its last stage is its last layer; none for others."""
    found = [_STAGE.fullmatch(str(item)) for item in fields.get("out_features") or []]
    layers = sorted(int(item[1]) - 1 for item in found if item)
    return sorted({0, *layers}) if layers and len(layers) == len(found) and layers[-1] < count else []


def _with_stages(fields: Fields, chosen: list[int]) -> Fields:
    """Return the names of stages by the layers that are left; the class counts their indices itself."""
    names = [f"stage{chosen.index(int(item[5:]) - 1) + 1}" for item in fields["out_features"]]
    return {"out_features": names, "out_indices": "left out", "stage_names": "left out"}


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_by_layer(value: Any, count: int) -> bool:
    numbers = [str(key) for key in value] if isinstance(value, Mapping) and value else ["none"]
    return all(number.isdigit() and int(number) < count for number in numbers)


def _as_list(table: Mapping[Any, Any], count: int) -> list[Any]:
    return [table.get(index, table.get(str(index))) for index in range(count)]


def _renumbered(table: Mapping[Any, Any], chosen: list[int]) -> dict[Any, Any]:
    places = {str(old): new for new, old in enumerate(chosen)}
    return {type(key)(places[str(key)]): value for key, value in table.items() if str(key) in places}


def _of_each_kind(count: int, lists: list[Any]) -> list[int]:
    """Return the layers to keep: the first of each kind, and at least two."""
    kinds: dict[str, int] = {}
    for index in range(count):
        kinds.setdefault(str([item[index] for item in lists]), index)
    chosen = sorted(kinds.values())[:_MOST_LAYERS]
    more = (index for index in range(count) if index not in chosen)
    while len(chosen) < 2:
        chosen.append(next(more))
    return sorted(chosen)
