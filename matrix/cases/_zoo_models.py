"""Models that the zoo builds tiny by rules, with the inputs that it makes for them."""

from typing import Any

from ._decoder import Sample, TransformersDecoder


def make_zoo_model(model_type: str, task: str = "image-text-to-text-with-past") -> TransformersDecoder:
    """Build the model of a type for a task; its prompt is that of the zoo, whatever the sample is."""
    from exportcompat.matrix.zoo import build, entries

    name = f"{task}/{model_type}"
    built = build(next(entry for entry in entries() if entry.name == name))

    class ZooDecoder(TransformersDecoder):
        def sample(self, sample: Sample) -> dict[str, Any]:
            return dict(built.calls[0])

    return ZooDecoder(built.model)
