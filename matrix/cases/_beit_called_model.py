"""Models that were called before they are exported: what they keep of a call must not get into a graph."""

from ._forward import Forward
from ._resized_encoder_models import make_beit


def make_beit_called() -> Forward:
    """Build BEiT, called with an image of the size that is exported."""
    return _called(make_beit())


def _called(subject: Forward) -> Forward:
    subject.model.eval()
    subject.run(subject.inputs(subject.traced))
    return subject
