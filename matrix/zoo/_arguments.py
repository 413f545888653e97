"""Arguments that models want beside texts, images and sounds."""

from typing import Any


def complete(model: Any, call: dict[str, Any], transformers: Any) -> dict[str, Any]:
    """Return a call with what `forward` wants beside."""
    return call
