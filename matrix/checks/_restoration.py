"""Is everything afterwards as it was? The live model, bit for bit, and every place that a spec may write."""

import sys
from collections.abc import Iterator
from typing import Any

from exportcompat._observer import first_line
from exportcompat.matrix.cases import Decoder, Sample
from exportcompat.patches import default_registry

_LENGTHS = (40, 5)
"""Eager calls before and after: beyond every limit of the cases, then below it, so a model with state resets."""


class Snapshot:
    """What is noted before an export and looked at again after it."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {}
        self._outputs: list[Any] = []

    def note_model(self, decoder: Decoder) -> None:
        """Note the eager outputs of a copy, and what the specs would write to.

        The model itself must not have run: what torch leaves on it is worst where it stores something new.
        """
        self._outputs = _outputs(decoder.reference())
        self._names = _places()

    def changes(self, decoder: Decoder) -> list[str]:
        """Return what is not as it was."""
        fakes = [f"the model keeps a FakeTensor in {name}" for name in _fakes(decoder.model)]
        places = _places()
        moved = [f"{name} is not as it was" for name, value in self._names.items() if places.get(name) != value]
        return fakes + moved + ([] if fakes else self._differences(decoder))

    def _differences(self, decoder: Decoder) -> list[str]:
        import torch

        try:
            outputs = _outputs(decoder)
        except Exception as error:
            return [f"eager fails afterwards: {first_line(error)}"]
        pairs = zip(self._outputs, outputs, _LENGTHS, strict=True)
        return [f"eager at length {n} is not bit for bit the same" for a, b, n in pairs if not torch.equal(a, b)]


def _outputs(decoder: Decoder) -> list[Any]:
    inputs = [decoder.sample(Sample(2, None, length)) for length in _LENGTHS]
    return [decoder(item, None)[0] for item in inputs]


def _places() -> dict[str, Any]:
    """Return what each loaded target of every spec holds now."""
    modules = list(sys.modules.values())
    targets = {target.text: target for spec in default_registry() for target in spec.places if target.is_loaded()}
    return {slot.label: slot.read() for target in targets.values() for slot in _slots(target, modules)}


def _slots(target: Any, modules: list[Any]) -> list[Any]:
    from exportcompat.registry import TargetError

    try:
        return list(target.slots(modules))
    except TargetError:
        # A target of another release.
        return []


def _fakes(model: Any) -> Iterator[str]:
    from torch._subclasses.fake_tensor import FakeTensor

    for path, module in model.named_modules():
        tables = {**vars(module), **module._buffers, **module._parameters}
        for name, value in tables.items():
            if isinstance(value, FakeTensor):
                yield f"{path}.{name}".lstrip(".")
