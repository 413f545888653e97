"""EnCodec without chunks, with codebooks that differ, and sounds that are shorter than what a convolution reflects."""

from collections.abc import Sequence

from ._codec_models import Restored
from ._decoder import generator


class Short(Restored):
    """Sounds down to some 0.1 s; the model has 320 samples for each moment."""

    shapes: Sequence[tuple[int, int]] = ((1, 6000), (3, 7001), (2, 960), (2, 321), (1, 12800))


def make_encodec() -> Short:
    """Build EnCodec of 24 kHz with few channels; a codebook is nothing but zeros before it is trained."""
    import torch
    from transformers import EncodecConfig, EncodecModel

    config = EncodecConfig(num_filters=4, hidden_size=16, codebook_size=64, codebook_dim=16, num_lstm_layers=1)
    model = EncodecModel(config).eval()
    with torch.no_grad():
        for layer in model.quantizer.layers:
            layer.codebook.embed.copy_(torch.randn(layer.codebook.embed.shape, generator=generator()))
        for weight in model.parameters():
            weight.mul_(1.5)
    return Short(model)
