"""SuperPoint finds the keypoints of each image in a loop, and puts them into tensors as long as the longest of them.

Symptom: `tracing inferred a static shape of 2 for dimension inputs['pixel_values'].shape[0]`, or
`Could not guard on data-dependent expression`.
Cause: `forward` goes through the images of a batch, by `nonzero` of the scores of each, and takes the `max` of how many
keypoints they have; `top_k_keypoints` asks for that number, too.
What is done: while it is traced, the places of keypoints come from a running count of all images at once, and only the
length of the tensors, which may be 0, is a result. Where an image has more than `max_keypoints`, the best of them are
picked, in the order of their scores; of equal scores a runtime takes any, in eager mode too.
Can go: when upstream finds the keypoints of a batch without a loop.
"""

import sys
from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import PatchingSpec


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Find the keypoints of all images at once while they are traced."""

    def traced(
        self: Any,
        pixel_values: Any,
        labels: Any = None,
        output_hidden_states: Any = None,
        return_dict: Any = None,
        **kwargs: Any,
    ) -> Any:
        if labels is not None:
            return original(self, pixel_values, labels)
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        encoded = self.encoder(self.extract_one_channel_pixel_values(pixel_values), output_hidden_states=wanted)
        found = _keypoints(self, encoded[0], *pixel_values.shape[-2:])
        found["hidden_states"] = encoded[1] if wanted else None
        if return_dict is False or (return_dict is None and not self.config.return_dict):
            return tuple(value for value in found.values() if value is not None)
        return sys.modules[type(self).__module__].SuperPointKeypointDescriptionOutput(**found)

    return when_traced(original, traced)


def _keypoints(model: Any, states: Any, height: Any, width: Any) -> dict[str, Any]:
    """Return the keypoints of images, with zeros behind the last one of each, and the mask that says so.

    Args:
        model: SuperPoint.
        states: of its encoder, `(images, channels, rows, columns)`.
        height: of the images.
        width: likewise.
    """
    import torch

    decoder = model.keypoint_decoder
    scores = decoder._get_pixel_scores(states)
    columns = scores.shape[2]
    order, mask = _order(scores, decoder)
    image = torch.arange(scores.shape[0], device=scores.device)[:, None]
    places = torch.stack([order % columns, order // columns], -1).to(scores.dtype)
    descriptors = _descriptors(model.descriptor_decoder, states, places)
    size = torch.stack([torch.full((), side, dtype=torch.int64) for side in (width, height)])
    return {
        "keypoints": torch.where(mask[..., None], places.float() / size.to(places.device), 0.0),
        "scores": torch.where(mask, scores.flatten(1)[image, order].float(), 0.0),
        "descriptors": torch.where(mask[..., None], descriptors.float(), 0.0),
        "mask": mask.int(),
    }


def _order(scores: Any, decoder: Any) -> tuple[Any, Any]:
    """Return the pixels that are keypoints, `(images, longest)`, and which of these an image has.

    Args:
        scores: `(images, height, width)`.
        decoder: what is to be a keypoint.
    """
    import torch

    height, width = scores.shape[1:]
    border = decoder.border_removal_distance
    down, along = (torch.arange(side, device=scores.device) for side in (height, width))
    # Upstream takes eight times the size for the far border, so that it removes none there.
    down, along = ((side >= border) & (side < size * 8 - border) for side, size in ((down, height), (along, width)))
    is_point = ((scores > decoder.keypoint_threshold) & down[:, None] & along).flatten(1)
    rank, counts = is_point.long().cumsum(1), is_point.long().sum(1)
    pixels = torch.arange(height * width, device=scores.device)
    # What is no keypoint goes behind the end.
    rank = torch.where(is_point, rank - 1, height * width)
    spare = torch.zeros_like(rank[:, :1])
    order = torch.cat([torch.zeros_like(rank), spare], 1).scatter(1, rank, pixels.expand_as(rank))
    most = decoder.max_keypoints
    longest = counts.clamp(max=most) if most >= 0 else counts
    column = (pixels < longest.max()).nonzero().squeeze(1)
    order = order[:, column]
    if most >= 0:
        best = torch.where(is_point, scores.flatten(1), -1.0).topk(torch.sym_min(most, height * width)).indices
        order = torch.where((counts > most)[:, None], best[:, column], order)
    return order, column < longest[:, None]


def _descriptors(decoder: Any, states: Any, places: Any) -> Any:
    """Return the descriptors at places, `(images, places, channels)`, of which every eighth pixel has its own.

    Args:
        decoder: what has the layers.
        states: of the encoder.
        places: columns and rows of pixels, `(images, places, 2)`.
    """
    import torch
    from torch.nn.functional import grid_sample, normalize

    own = decoder.conv_descriptor_b(decoder.relu(decoder.conv_descriptor_a(states)))
    own = normalize(own, p=2, dim=1)
    size = torch.stack([torch.full((), side, dtype=places.dtype) for side in (own.shape[3], own.shape[2])])
    grid = (places - 3.5) / (size.to(places.device) * 8 - 4.5) * 2 - 1
    found = grid_sample(own, grid[:, None], mode="bilinear", align_corners=True)[:, :, 0]
    return normalize(found, p=2, dim=1).transpose(1, 2)


SPECS = (
    PatchingSpec(
        id="superpoint-keypoints",
        targets=("transformers.models.superpoint.modeling_superpoint:SuperPointForKeypointDetection.forward",),
        replacement=f"{__name__}:patch_forward",
        requires=("transformers>=4.53", "torch>=2.6"),
        reason="The keypoints of each image, as many as the data say, are found in a loop over images: no graph.",
        upstream=(source("models/superpoint/modeling_superpoint.py", "v5.24.0"),),
        proofs=("superpoint",),
        kind="wrap",
    ),
)
