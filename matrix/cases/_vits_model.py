"""Speech from text in one call: how long a sound is, is a result of the model."""

from typing import Any

import torch

from ._decoder import generator
from ._encoder_models import TextEncoder
from ._forward import Forward


class Speaker(TextEncoder):
    """VITS without noise, which no two runtimes draw alike; a shape is `(batch, sequence)`; padding is on the right."""

    shapes = ((1, 1), (1, 12), (3, 5), (3, 40), (5, 30))
    outputs = ("waveform", "sequence_lengths")

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        mask = super().inputs(shape)["attention_mask"]
        return {"input_ids": torch.randint(1, 38, shape, generator=generator()), "attention_mask": mask}


def make_vits() -> Forward:
    """Build VITS with random weights, as MMS-TTS has it, for one voice."""
    from transformers import VitsConfig, VitsModel

    sizes = {"hidden_size": 32, "ffn_dim": 32, "flow_size": 32, "spectrogram_bins": 17, "upsample_initial_channel": 32}
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2, "posterior_encoder_num_wavenet_layers": 2}
    flows = {"prior_encoder_num_flows": 2, "prior_encoder_num_wavenet_layers": 2, "duration_predictor_num_flows": 2}
    sound = {"upsample_rates": [4, 4], "upsample_kernel_sizes": [8, 8], "depth_separable_num_layers": 2}
    blocks = {"resblock_kernel_sizes": [3, 5], "resblock_dilation_sizes": [[1, 3], [1, 3]]}
    model = VitsModel(VitsConfig(**sizes, **layers, **flows, **sound, **blocks, initializer_range=0.2))
    model.noise_scale = model.noise_scale_duration = 0.0
    return Speaker(model)
