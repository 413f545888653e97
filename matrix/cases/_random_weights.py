"""Weights of models that begin with zeros, of which nothing of an input comes to the end."""

from typing import Any

import torch

from ._decoder import generator


def randomized(model: Any, spread: float = 0.3) -> Any:
    """Add random numbers to all weights of a model, the same ones each time, and return it."""
    seed = generator()
    for weight in model.parameters():
        weight.data += torch.randn(weight.shape, generator=seed) * spread
    return model
