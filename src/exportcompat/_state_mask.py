"""The mask of an encoder's states, which models of sounds compute from the mask of their inputs.

An encoder of sounds has fewer states than samples. Some models return a mask with the states (Moonshine from
transformers 5.2, Canary); others compute it in the decoder's call, from the mask of the sound (Speech2Text, SpeechT5,
wav2vec 2.0 joined with a decoder). A decoder of its own is given the mask of the states in both cases.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from exportcompat.registry import ExportCompatError

_SHORTENS = "_get_feature_vector_attention_mask"
"""The method of transformers that makes the mask of the states of the mask of a sound."""
_LOCK = RLock()


def state_mask(model: nn.Module, outputs: Any, mask: Tensor | None) -> Tensor | None:
    """Return the mask of the states that a decoder attends to, `(batch, encoder_sequence)`, int64.

    Args:
        model: an encoder-decoder.
        outputs: of its encoder.
        mask: of the inputs, as the model was given it.

    Returns:
        ones where nothing is padded; None for a model that takes no such mask.

    Raises:
        ExportCompatError: inputs are padded, and the decoder cannot be told.
    """
    states = outputs[0]
    if _takes_text(model) or hasattr(outputs, "attention_mask"):
        found = mask if _takes_text(model) else outputs.attention_mask
        return _ones(states) if found is None else found.long()
    if mask is not None and mask.shape == states.shape[:2]:
        return mask.long()
    shortening = next(_shortening(model), None)
    if shortening is not None:
        return _ones(states) if mask is None else getattr(shortening, _SHORTENS)(states.shape[1], mask).long()
    # Whisper takes a mask for the augmentation of training alone.
    is_whisper = hasattr(getattr(model, "model", None), "_mask_input_features")
    if mask is not None and not mask.all() and not is_whisper:
        raise ExportCompatError(
            f"{type(model).__name__} has padding along what its encoder shortens, which the decoder cannot be given; "
            "observe inputs of one length"
        )
    return None


@contextmanager
def taken_as_it_is(model: nn.Module) -> Iterator[None]:
    """Let a model take the mask of the states where it wants that of the sound, inside a `with`.

    Another thread that calls such a model waits.
    """
    found = list(_shortening(model))
    if not found:
        yield
        return
    with _LOCK:
        for module in found:
            vars(module)[_SHORTENS] = lambda _length, mask, **_: mask
        try:
            yield
        finally:
            for module in found:
                del vars(module)[_SHORTENS]


def _takes_text(model: nn.Module) -> bool:
    return "input_ids" in inspect.signature(model.forward).parameters


def _ones(states: Tensor) -> Tensor:
    return torch.ones(states.shape[:2], dtype=torch.int64, device=states.device)


def _shortening(model: nn.Module) -> Iterator[nn.Module]:
    return (module for module in model.modules() if hasattr(module, _SHORTENS))
