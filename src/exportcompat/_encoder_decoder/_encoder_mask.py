"""The mask of an encoder's states, which some models compute from the mask of their inputs.

An encoder of sounds has fewer states than samples. Some models return a mask with the states (Moonshine from
transformers 5.2, Canary, and UDOP, which has states of an image behind those of the words); others compute it in the
decoder's call, from the mask of the sound (Speech2Text, SpeechT5, wav2vec 2.0 joined with a decoder). A decoder of its
own is given the mask of the states in both cases.
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


def encoder_attention_mask(model: nn.Module, outputs: Any, mask: Tensor | None) -> Tensor | None:
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
    states, modules = outputs[0], shortening(model)
    is_of_texts = "input_ids" in inspect.signature(model.forward).parameters
    if hasattr(outputs, "attention_mask"):
        return _of_states(mask if is_of_texts and outputs.attention_mask is None else outputs.attention_mask, states)
    if is_of_texts:
        return _of_states(mask, states)
    if mask is not None and mask.shape == states.shape[:2]:
        return mask.long()
    if modules:
        return _of_states(None if mask is None else getattr(modules[0], _SHORTENS)(states.shape[1], mask), states)
    # Whisper takes a mask for the augmentation of training alone.
    is_whisper = hasattr(getattr(model, "model", None), "_mask_input_features")
    if mask is not None and not mask.all() and not is_whisper:
        raise ExportCompatError(
            f"{type(model).__name__} has padding along what its encoder shortens, which the decoder cannot be given; "
            "observe inputs of one length"
        )
    return None


def shortening(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the parts of a model that make the mask of the states of that of a sound, the outermost first."""
    return tuple(module for module in model.modules() if hasattr(type(module), _SHORTENS))


@contextmanager
def taken_as_it_is(modules: tuple[nn.Module, ...]) -> Iterator[None]:
    """Let `shortening` parts take the mask of the states where they want that of the sound, inside a `with`.

    Another thread that calls such a model waits.
    """
    if not modules:
        yield
        return
    with _LOCK:
        for module in modules:
            vars(module)[_SHORTENS] = lambda _length, mask, **_: mask
        try:
            yield
        finally:
            for module in modules:
                del vars(module)[_SHORTENS]


def _of_states(mask: Tensor | None, states: Tensor) -> Tensor:
    """Return a mask in int64; ones if there is none."""
    return torch.ones(states.shape[:2], dtype=torch.int64, device=states.device) if mask is None else mask.long()
