"""Encoders of audio codecs, and speech from text, as the zoo builds them: lengths that fill no whole frame."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._encoder_models import TextEncoder
from ._forward import Forward


class Sounds(Forward):
    """Sounds of one channel; a shape is `(batch, samples)`."""

    traced: tuple[int, int] = (2, 6000)
    shapes: Sequence[tuple[int, int]] = ((1, 6000), (3, 7001), (2, 3840), (1, 9999))
    axes: Mapping[str, Any] = {"input_values": {0: "batch", 2: "samples"}}
    outputs: tuple[str, ...] = ("latents",)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        batch, samples = shape
        return {"input_values": torch.randn(batch, 1, samples, generator=generator())}


class Coded(Sounds):
    """An encoder that gives the numbers of codes."""

    outputs = ("audio_codes",)


def make_encoder(model_type: str) -> Sounds:
    """Build the encoder of a codec."""
    from exportcompat.matrix.zoo import build_type

    made = build_type("feature-extraction", model_type)
    return (Coded if model_type == "wavtokenizer_encoder" else Sounds)(made)


class Restored(Sounds):
    """A codec that takes a sound to codes, and these to a sound of the same length."""

    outputs = ("audio_codes", "audio_values")


def make_mimi() -> Restored:
    """Build Mimi as a whole: older releases have no class of its encoder alone."""
    from exportcompat.matrix.zoo import build_type

    return Restored(build_type("feature-extraction", "mimi"))


class Spoken(TextEncoder):
    """FastSpeech2; a shape is `(batch, sequence)`; padding is on the right, and lasts no moment."""

    shapes = ((1, 1), (1, 12), (3, 5), (3, 40), (5, 30))
    outputs = ("spectrogram", "encoder_last_hidden_state", "duration_outputs", "pitch_outputs", "energy_outputs")

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = super().inputs(shape)["attention_mask"]
        return {"input_ids": torch.randint(1, 64, shape, generator=generator()), "attention_mask": mask}


def make_fastspeech2() -> Spoken:
    """Build FastSpeech2, whose states last 2 moments on the mean, and some none."""
    from exportcompat.matrix.zoo import build_type

    model = build_type("text-to-audio", "fastspeech2_conformer")
    with torch.no_grad():
        model.duration_predictor.linear.bias.fill_(1.0)
    return Spoken(model)
