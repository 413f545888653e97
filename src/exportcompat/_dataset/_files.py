"""The files of `exportcompat-data`: found, and read when they are first needed."""

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError, did_you_mean

SCHEMA = 1
"""The major version of the files. New keys may come without a new number; other meanings may not."""

_PACKAGE = "exportcompat_data"


class Dataset:
    """The files of one folder.

    Args:
        folder: where they are, such as the folder of the package `exportcompat_data`.

    Raises:
        ExportCompatError: they cannot be read, or have another schema.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.index: dict[str, Any] = self._read("index.json")
        if self.index.get("schema") != SCHEMA:
            raise ExportCompatError(
                f"the data in {folder} have the schema {self.index.get('schema')!r}, and this release reads {SCHEMA}; "
                "run: pip install --upgrade exportcompat exportcompat-data"
            )

    @property
    def model_types(self) -> list[str]:
        """The model types of which there are results, as their folders in transformers are called."""
        return list(self.index["model_types"])

    def results(self, model_type: str) -> dict[str, Any]:
        """Return the file of one model type.

        Args:
            model_type: as `find_type` returns it.
        """
        found: dict[str, Any] = self._read(f"results/{model_type}.json")
        return found

    @cached_property
    def specs(self) -> list[dict[str, Any]]:
        """The specs, with what is known of the releases in their ranges."""
        found: list[dict[str, Any]] = self._read("specs.json")["specs"]
        return found

    @cached_property
    def advisories(self) -> list[dict[str, Any]]:
        """The known breakages, wrong results first."""
        return [self._read(f"advisories/{name}.json") for name in self.index["advisories"]]

    def find_type(self, text: str) -> str:
        """Return the model type that a text means: its name, with `-` for `_` or in one word, or with `_text` behind.

        Raises:
            ExportCompatError: there are no results of it; the message names similar ones.
        """
        known = {_plain(name): name for name in self.model_types}
        wanted = _plain(text)
        for name in (wanted, wanted.removesuffix("text")):
            if name in known:
                return known[name]
        raise ExportCompatError(
            f"there are no results of the model type {text!r}{did_you_mean(text, self.model_types)}"
        )

    def _read(self, name: str) -> Any:
        path = self._folder / name
        try:
            return json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ExportCompatError(
                f"{path} cannot be read ({error}); run: pip install --force-reinstall exportcompat-data"
            ) from None


@lru_cache(maxsize=1)
def dataset() -> Dataset:
    """Return the installed files.

    Raises:
        MissingExtraError: `exportcompat-data` is not installed.
        ExportCompatError: see `Dataset`.
    """
    return Dataset(Path(require(_PACKAGE, "data").__path__[0]))


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "").replace(".", "")
