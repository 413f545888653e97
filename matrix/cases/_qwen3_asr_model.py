"""The encoder of sounds of Qwen3-ASR: chunks of sounds of several lengths, in windows of two, and no sound at all."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward

_CHUNK, _BINS = 100, 16


class Sounds(Forward):
    """Encodes sounds; a shape has the chunks that they are padded to, and the frames of each."""

    traced: tuple[int, Sequence[int]] = (3, (300, 131))
    shapes: Sequence[tuple[int, Sequence[int]]] = (
        (3, (300,)),
        (1, (100, 100, 60)),
        (5, (500, 20, 210)),
        (4, (110, 400, 250, 400)),
        (1, (40,)),
    )
    axes: Mapping[str, Any] = {
        "input_features": {0: "sounds", 2: "frames"},
        "input_features_mask": {0: "sounds", 1: "frames"},
    }

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        frames = _CHUNK * torch.export.Dim("chunks", max=100)
        return {"input_features": {0: "sounds", 2: frames}, "input_features_mask": {0: "sounds", 1: frames}}

    def inputs(self, shape: tuple[int, Sequence[int]]) -> dict[str, Any]:
        chunks, lengths = shape
        frames = chunks * _CHUNK
        features = torch.randn(len(lengths), _BINS, frames, generator=generator())
        mask = (torch.arange(frames) < torch.tensor(lengths)[:, None]).long()
        return {"input_features": features, "input_features_mask": mask}


def make_qwen3_asr_encoder() -> Sounds:
    """Build the encoder, whose chunks have 100 frames: how many states these have is a number of its code."""
    from transformers.models.qwen3_asr.configuration_qwen3_asr import Qwen3ASREncoderConfig
    from transformers.models.qwen3_asr.modeling_qwen3_asr import Qwen3ASREncoder

    sizes = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 48, "output_dim": 32}
    chunks = {"n_window": _CHUNK // 2, "n_window_infer": 2 * _CHUNK, "num_mel_bins": _BINS}
    config = Qwen3ASREncoderConfig(**sizes, **chunks, downsample_hidden_size=8, initializer_range=0.2)
    return Sounds(Qwen3ASREncoder._from_config(config))
