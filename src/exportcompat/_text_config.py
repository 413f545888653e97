"""The part of a configuration that describes the text model."""

from typing import Any


def text_config(config: Any) -> Any:
    """Return what the text model of a composite model asks; a model of texts alone has one configuration."""
    return config.get_text_config() if hasattr(config, "get_text_config") else getattr(config, "text_config", config)
