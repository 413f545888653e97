"""Which model somebody means: by its type, a class, a folder, or a name of the hub. No model is imported or fetched."""

import importlib.util
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from exportcompat.registry import ExportCompatError, did_you_mean

_MODELS = "transformers.models."
_IMPORT = re.compile(r"^from (?:\.\.|transformers\.models\.)(\w+)\.modeling_", re.MULTILINE)
"""By which a model takes code from another one."""


@dataclass(frozen=True)
class Named:
    """What was found for a name.

    Attributes:
        folders: of `transformers.models`, those of the parts of a composite model too.
        guess: how it was taken, if the name alone was to go by; else empty.
    """

    folders: tuple[str, ...]
    guess: str = ""


def find_model(text: str, known: Collection[str]) -> Named:
    """Return the folders of `transformers.models` that a name is about.

    Args:
        text: a folder with a `config.json`, a model type, the name of a class, or a name of the hub.
        known: folders besides those of the installed transformers.

    Raises:
        ExportCompatError: nothing is known by that name; the message names similar ones.
    """
    folders = {*known, *installed_models()}
    types = _types_of(text)
    found = [folder for name in types or [text] for folder in _of_type(name, folders, is_exact=not types)]
    if found:
        return Named(tuple(dict.fromkeys(found)))
    if "/" not in text and (of_class := _of_class(text, folders)):
        return Named((of_class,))
    if "/" in text and (of_name := _of_words(text.rpartition("/")[2], folders)):
        return Named((of_name,), f"{text!r} is not here; by its name it is taken for a {of_name}")
    named = f" (its config.json has {', '.join(types)})" if types else ""
    hint = did_you_mean(text, folders) or "; give a model type, such as llama, a class, or a folder with a config.json"
    raise ExportCompatError(f"no model type {text!r} is known{named}{hint}")


@lru_cache(maxsize=1)
def installed_models() -> Mapping[str, Path]:
    """Return the folders of the installed transformers by name; empty if there is none. It is not imported."""
    try:
        found = importlib.util.find_spec("transformers")
    except (ImportError, ValueError):
        found = None
    places = [Path(place) / "models" for place in (found.submodule_search_locations or []) if place] if found else []
    return {
        path.name: path for place in places if place.is_dir() for path in sorted(place.iterdir()) if _is_model(path)
    }


def _is_model(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith("_") and path.name not in ("auto", "deprecated")


def source_of(folder: str) -> str:
    """Return the code of a model of the installed transformers and of those that it takes code from; may be empty."""
    done: dict[str, str] = {}
    todo = [folder]
    while todo:
        name = todo.pop()
        path = installed_models().get(name)
        if path is None or name in done:
            continue
        done[name] = "\n".join(file.read_text("utf-8") for file in sorted(path.glob("modeling_*.py")))
        todo += _IMPORT.findall(done[name])
    return "\n".join(done.values())


def folder_of(module: str) -> str:
    """Return the folder of `transformers.models` that a module is in; empty if it is in none."""
    return module.removeprefix(_MODELS).partition(".")[0] if module.startswith(_MODELS) else ""


def _types_of(text: str) -> list[str]:
    """Return the model types in the configuration of a folder, or of a name of the hub that is in its cache."""
    path = Path(text)
    places = [path / "config.json"] if path.is_dir() else list(_cached(text))
    for place in places:
        try:
            return list(dict.fromkeys(_model_types(json.loads(place.read_text("utf-8")))))
        except (OSError, ValueError) as error:
            raise ExportCompatError(f"{place} cannot be read: {error}; name a folder of a model") from None
    return []


def _cached(text: str) -> Iterator[Path]:
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    if text.count("/") == 1 and hub.is_dir():
        yield from sorted(hub.glob(f"models--{text.replace('/', '--')}/snapshots/*/config.json"))[-1:]


def _model_types(config: Any) -> Iterator[str]:
    if isinstance(config, dict):
        if isinstance(config.get("model_type"), str) and config["model_type"]:
            yield config["model_type"]
        for value in config.values():
            yield from _model_types(value)


def _of_type(name: str, folders: Collection[str], *, is_exact: bool) -> Iterator[str]:
    """Yield the folder of a model type; that of a part, such as `gemma3_text`, is the one of the whole."""
    plain = name.replace("-", "_")
    if plain in folders:
        yield plain
    elif not is_exact or plain.endswith(("_text", "_vision", "_audio", "_text_model", "_vision_model", "_encoder")):
        yield from sorted((item for item in folders if plain.startswith(f"{item}_")), key=len)[-1:]


def _of_class(name: str, folders: Collection[str]) -> str:
    if not re.fullmatch(r"[A-Z]\w+", name):
        return ""
    line = re.compile(rf"^class {name}\(", re.MULTILINE)
    near = sorted((item for item in folders if _plain(name).startswith(_plain(item))), key=len, reverse=True)
    for folder in [*near, *sorted(set(installed_models()) - set(near))]:
        path = installed_models().get(folder)
        files = sorted(path.glob("modeling_*.py")) if path else []
        if any(line.search(file.read_text("utf-8")) for file in files):
            return folder
    # A class of another release, or no transformers at all.
    return near[0] if near and re.search(r"(For[A-Z]\w+|Model|Encoder|Decoder)$", name) else ""


def _of_words(name: str, folders: Collection[str]) -> str:
    """Return the folder that a name begins with, or what follows one of its words does."""
    words = re.split(r"[-_. ]+", name)
    for start in range(len(words)):
        rest = _plain("".join(words[start:]))
        found = [item for item in folders if rest.startswith(_plain(item))]
        if found:
            return max(found, key=len)
    return ""


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
