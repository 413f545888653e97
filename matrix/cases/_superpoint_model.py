"""SuperPoint and SuperGlue: keypoints of images, as many as there are, few or many, and those that match."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ._decoder import generator
from ._forward import Forward


class Keypoints(Forward):
    """Finds keypoints in images; a shape is `(height, width, contrasts)`, a contrast for each image.

    With a contrast of 1 an image has none or one, and with one of 4 more than are kept, unless it is small.
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


class Matches(Keypoints):
    """Matches the keypoints of two images; a shape has a contrast for each image, two for each pair."""

    traced = (64, 80, (4, 2, 3, 4))
    shapes = (
        (64, 64, (3, 4)),
        (120, 72, (1, 4, 4, 4)),
        (70, 101, (1.5, 2, 3, 4, 1, 1.5)),
        (48, 48, (1, 1, 2, 2)),
    )
    axes: Mapping[str, Any] = {"pixel_values": {0: "batch", 3: "height", 4: "width"}}
    outputs = ("matches", "matching_scores", "keypoints", "mask")

    def inputs(self, shape: tuple[int, int, Sequence[float]]) -> dict[str, Any]:
        return {name: tensor.unflatten(0, (-1, 2)) for name, tensor in super().inputs(shape).items()}


def make_superpoint() -> Forward:
    """Build SuperPoint, which finds 60 keypoints in an image at most."""
    from transformers import SuperPointForKeypointDetection

    return Keypoints(_randomized(SuperPointForKeypointDetection(_detector(0.3))))


def make_superglue() -> Forward:
    """Build SuperGlue, which takes each best match for one."""
    from transformers import SuperGlueConfig, SuperGlueForKeypointMatching

    sizes = {"hidden_size": 16, "keypoint_encoder_sizes": [8, 16], "num_attention_heads": 2, "sinkhorn_iterations": 5}
    layers = {"gnn_layers_types": ["self", "cross"], "matching_threshold": 0.0}
    config = SuperGlueConfig(keypoint_detector_config=_detector(0.1), **sizes, **layers)
    return Matches(_randomized(SuperGlueForKeypointMatching(config)))


def _detector(threshold: float) -> Any:
    from transformers import SuperPointConfig

    sizes = {"encoder_hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "descriptor_decoder_dim": 16}
    return SuperPointConfig(**sizes, max_keypoints=60, keypoint_threshold=threshold)


def _randomized(model: Any) -> Any:
    """Make weights random, and as large as what goes in: else many pixels score 1, and any of these is the best."""
    seed = generator()
    for weight in model.parameters():
        spread = (1.5 / weight[0].numel()) ** 0.5 if weight.dim() > 1 else 0.1
        weight.data = torch.randn(weight.shape, generator=seed) * spread
    return model
