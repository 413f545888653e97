"""SuperPoint: keypoints of images, as many as there are, in an image with few contrasts as in one with many."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward


class Keypoints(Forward):
    """Finds keypoints in images; a shape is `(height, width, contrasts)`, a contrast for each image.

    With a contrast of 1 an image has no keypoints or few, and with one of 4 about one in 120 pixels.
    """

    traced: tuple[int, int, Sequence[float]] = (48, 64, (2, 4))
    shapes: Sequence[tuple[int, int, Sequence[float]]] = (
        (64, 80, (4,)),
        (120, 72, (1, 4, 1.5)),
        (70, 101, (1.5, 2, 3, 4)),
        (48, 48, (1, 1)),
    )
    axes: Mapping[str, Any] = {"pixel_values": {0: "batch", 2: "height", 3: "width"}}
    outputs = ("keypoints", "scores", "descriptors", "mask")

    def inputs(self, shape: tuple[int, int, Sequence[float]]) -> dict[str, Any]:
        height, width, contrasts = shape
        pixels = torch.randn(len(contrasts), 3, height, width, generator=generator())
        return {"pixel_values": pixels * torch.tensor(contrasts)[:, None, None, None]}


def make_superpoint() -> Forward:
    """Build SuperPoint, which finds 20 keypoints in an image at most."""
    from transformers import SuperPointConfig, SuperPointForKeypointDetection

    sizes = {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "descriptor_decoder_dim": 16}
    model = SuperPointForKeypointDetection(SuperPointConfig(**sizes, max_keypoints=20, keypoint_threshold=0.1))
    seed = generator()
    for weight in model.parameters():
        # As large as what goes in: of larger ones many pixels have the score 1, and any of these is the best.
        spread = (1.5 / weight[0].numel()) ** 0.5
        weight.data = torch.randn(weight.shape, generator=seed) * (spread if weight.dim() > 1 else 0.1)
    return Keypoints(model)
