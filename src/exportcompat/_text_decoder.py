"""An exported decoder that also takes images or sounds, called with a text alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ._align import Aligned
from ._axes import BATCH, SEQUENCE, TOTAL, Axes
from ._decoder import OnnxDecoder
from ._session import OnnxFile

_POSITIONS = "position_ids"


class TextDecoder(OnnxDecoder):
    """A file with the interface of a decoder, and inputs beside it that a text does without.

    These get tensors of zeros: as long as the text where an axis has that name, of length 0 along each other axis that
    is dynamic (no images), and as they were observed along the rest. Positions of several kinds are all those of the
    text.

    Args:
        file: the file.
        outputs: the names of its outputs.
        aligned: what was observed.
        axes: the dynamic axes.
    """

    def __init__(self, file: OnnxFile, outputs: Sequence[str], aligned: Aligned, axes: Axes) -> None:
        super().__init__(file, outputs)
        self._donors = {name: aligned.donors[path] for path, name in aligned.names().items()}
        self._named = {name: axes[path] for path, name in aligned.names().items()}

    def __call__(self, inputs: Mapping[str, Any], cache: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the logits and the cache to feed back, given the tensors of a text and a cache."""
        batch, new = inputs["input_ids"].shape
        sizes = {BATCH: batch, SEQUENCE: new, TOTAL: inputs["attention_mask"].shape[1]}
        others = {name: self._zeros(name, sizes) for name in self.inputs if name not in inputs and name in self._donors}
        return super().__call__({**inputs, **others, **self._positions(inputs)}, cache)

    def _zeros(self, name: str, sizes: Mapping[str, int]) -> Any:
        donor, axes = self._donors[name], self._named[name]
        shape = [sizes.get(axes[axis], 0) if axis in axes else size for axis, size in enumerate(donor.shape)]
        return donor.new_zeros(shape)

    def _positions(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        donor = self._donors.get(_POSITIONS)
        if donor is None or donor.dim() != 3 or _POSITIONS not in inputs:
            return {}
        # Multimodal rotary positions have an axis of kinds (time, height, width) before the batch.
        return {_POSITIONS: inputs[_POSITIONS].expand(donor.shape[0], -1, -1)}
