"""An exported decoder that may also take images or sounds, called with a text alone."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from exportcompat._verification import OnnxDecoder, Program, matched

from ._alignment import Aligned
from ._dynamic_axes import Axes
from ._embedded_tokens import EMBEDDINGS
from ._export_sample import absent
from ._rope_index import POSITION_IDS

_PLACEHOLDER = re.compile(r"(image|video|audio|vision)_(\w+_)?token_(id|index)")
_FIRST = 3
"""The ids before this one are those of padding, begin and end, in most models."""


class TextOnlyDecoder(OnnxDecoder):
    """A file with the interface of a decoder; what it takes besides a text is empty, as in a call without images.

    Positions of several kinds are all those of the text.

    A text alone has no placeholders of images or sounds, and some models refuse those: another token is taken instead.
    It is written to the tokens that are given, so that eager is given it too.

    Args:
        file: the file.
        outputs: the names of its outputs.
        config: of the model; it names the placeholders.
        aligned: what was observed.
        axes: the dynamic axes.
        embed: returns the embeddings of the tokens of a call, for a file that takes those.

    Attributes:
        names: the observed name of each input that is no cache; torch adds to that of one that is a result, too.
    """

    def __init__(
        self,
        file: Program,
        outputs: Sequence[str],
        config: Any,
        aligned: Aligned,
        axes: Axes,
        embed: Callable[[Mapping[str, Any]], Any],
    ) -> None:
        super().__init__(file, outputs)
        # torch may have made up the names of the cache from the same words, or from those of the argument.
        cache = {leaf: name for leaf, name in aligned.names().items() if aligned.argument(leaf) == aligned.cache}
        known = {_plain(word): name for leaf, name in cache.items() for word in (leaf, name)}
        found = {name: known[_plain(name)] for name in file.inputs if _plain(name) in known}
        self._past = {**self._past, **found}
        self._tokens = [name for name in self._tokens if name not in found]
        self._aligned, self._axes = aligned, axes
        self._placeholders, self._embed = placeholders(config), embed
        self.names = matched(self.inputs, aligned.trees, "the inputs")

    def empty_cache(self, batch: int) -> dict[str, Any]:
        """Return an empty cache; see `OnnxDecoder`.

        Files of others have names for axes that are constant, as the size of a head, and what was observed has that.
        """
        leaves = {name: leaf for leaf, name in self._aligned.names().items()}
        made = super().empty_cache(batch)
        return {name: self._with_constant_sizes(tensor, leaves.get(name, "")) for name, tensor in made.items()}

    def _with_constant_sizes(self, tensor: Any, leaf: str) -> Any:
        donor = self._aligned.donors.get(leaf)
        if donor is None or donor.dim() != tensor.dim():
            return tensor
        constant = [axis not in self._axes.get(leaf, {}) for axis in range(tensor.dim())]
        sizes = zip(tensor.shape, donor.shape, constant, strict=True)
        return tensor.new_zeros([known if is_constant and not size else size for size, known, is_constant in sizes])

    def __call__(self, inputs: Mapping[str, Any], cache: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the logits and the cache; see `OnnxDecoder`."""
        plain = next(token for token in count(_FIRST) if token not in self._placeholders)
        for placeholder in self._placeholders:
            inputs["input_ids"].masked_fill_(inputs["input_ids"] == placeholder, plain)
        if EMBEDDINGS in self.names.values():
            # It is written to what is given for eager's sake, which takes no tokens either.
            inputs[EMBEDDINGS] = self._embed(inputs)  # type: ignore[index]
        others = [name for name in self.names.values() if name not in inputs]
        given = {**inputs, **self._positions(inputs)}
        given |= absent(self._aligned, self._axes, others, given)
        return super().__call__({name: given[known] for name, known in self.names.items()}, cache)

    def _positions(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        donor = self._aligned.donors.get(POSITION_IDS)
        if donor is None or donor.dim() != 3 or POSITION_IDS not in inputs:
            return {}
        # Multimodal rotary positions have an axis of kinds (time, height, width) before the batch.
        # Some, such as those of Qwen3-Omni, are fractions of a second, and a file takes what was observed.
        return {POSITION_IDS: inputs[POSITION_IDS].expand(donor.shape[0], -1, -1).to(donor.dtype)}


def placeholders(config: Any) -> list[int]:
    """Return the tokens that stand for images or sounds, or stand around them."""
    settings = getattr(config, "__dict__", {})
    return [token for name, token in settings.items() if _PLACEHOLDER.fullmatch(name) and type(token) is int]


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name)
