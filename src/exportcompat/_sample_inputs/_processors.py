"""Tokenizer, image processor, feature extractor and processor of a model's folder, where they can be used here."""

import json
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Any

from exportcompat._observer import first_line

_LIBRARIES = ("torchvision", "PIL", "sentencepiece", "tiktoken", "librosa", "soundfile", "pytesseract", "timm")
_TOKENIZERS = (
    "tokenizer.json",
    "*.model",
    "*.spm",
    "*.tiktoken",
    "*.tokenizer",
    "tekken.json",
    "vocab*",
    "*vocab.json",
    "merges.txt",
    "bpe.codes",
    "tokenization_*.py",
)
"""Files that a tokenizer is made of."""
_TOKENIZER_CONFIG = "tokenizer_config.json"


class Processors:
    """What a folder has to make inputs with; each is loaded when it is first asked for, and None if that fails.

    Args:
        transformers: the package.
        source: a folder, or the name of a repository of the hub.
        options: keyword arguments of `from_pretrained`.

    Attributes:
        notes: a line for each that is there and cannot be used, with the reason.
    """

    def __init__(self, transformers: Any, source: str, options: dict[str, Any]) -> None:
        self._transformers, self._source, self._options = transformers, source, options
        self.notes: list[str] = []

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer."""
        return self._load("tokenizer", "AutoTokenizer") if self._has_tokenizer else None

    @cached_property
    def image_processor(self) -> Any:
        """The image processor."""
        return self._load("image processor", "AutoImageProcessor")

    @cached_property
    def feature_extractor(self) -> Any:
        """The feature extractor of sounds."""
        found = self._load("feature extractor", "AutoFeatureExtractor")
        return found if hasattr(found, "sampling_rate") else None

    @cached_property
    def processor(self) -> Any:
        """What makes inputs of texts together with images or sounds."""
        if not self._has_tokenizer:
            return None
        found = self._load("processor", "AutoProcessor")
        return found if hasattr(found, "tokenizer") else None

    @cached_property
    def _has_tokenizer(self) -> bool:
        """Say whether there may be a tokenizer: of nothing transformers 5 makes one that knows no word.

        What the hub has under a name is left to transformers.
        """
        folder = Path(self._source)
        if not self._source or not folder.is_dir():
            return True
        names = [path.name for path in folder.iterdir()]
        if any(fnmatch(name, pattern) for name in names for pattern in _TOKENIZERS):
            return True
        return _TOKENIZER_CONFIG in names and self._needs_no_file(folder / _TOKENIZER_CONFIG)

    def _needs_no_file(self, path: Path) -> bool:
        """Say whether a configuration is of a tokenizer with code of its own, or of one of bytes or characters."""
        try:
            config = json.loads(path.read_text("utf-8"))
            kind = getattr(self._transformers, str(config.get("tokenizer_class")), None)
        except (OSError, ValueError, AttributeError):
            return False
        return "auto_map" in config or getattr(kind, "vocab_files_names", None) == {}

    def _load(self, what: str, auto: str) -> Any:
        try:
            # A release of transformers refuses the class itself where a library is missing.
            return getattr(self._transformers, auto).from_pretrained(self._source, **self._options)
        except ImportError as error:
            missing = [name for name in _LIBRARIES if name.lower() in str(error).lower()]
            self.notes.append(f"the {what} is not used: it needs {' and '.join(missing) or first_line(error)}")
        except Exception:
            # There is none, which transformers says by exceptions of many classes.
            return None
        return None
