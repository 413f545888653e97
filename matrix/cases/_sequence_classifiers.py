"""Encoder-decoders that say to which class a text belongs: built from configurations, with random weights."""

from typing import Any

from ._encoder_decoder_models import SETTINGS, SIZES
from ._encoder_models import TextEncoder


class Classifier(TextEncoder):
    """A classifier of texts; a shape is `(batch, sequence)`. Every text has one end, its last token."""

    outputs = ("logits",)

    def inputs(self, shape: tuple[int, int]) -> dict[str, Any]:
        inputs = super().inputs(shape)
        last = inputs["attention_mask"].sum(1, keepdim=True) - 1
        return {**inputs, "input_ids": inputs["input_ids"].scatter(1, last, SIZES["eos_token_id"])}


def make_classes(name: str) -> Classifier:
    """Build a classifier, in evaluation mode.

    Args:
        name: a key of `SETTINGS`.
    """
    import transformers

    config = getattr(transformers, f"{name}Config")(**SIZES, **SETTINGS[name], num_labels=3)
    return Classifier(getattr(transformers, f"{name}ForSequenceClassification")(config).eval())
