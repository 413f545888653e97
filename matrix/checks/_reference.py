"""What eager answers to the calls that a file is compared by, as a digest: the numbers, bit for bit."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exportcompat import apply_patches
from exportcompat._verification import LOGITS, present_name
from exportcompat.matrix.cases import Case, Forward, Interface, Sample, interface_of

from ._program_digest import digest_of, value_digest

_FIRST_TOKEN = 3
"""Smaller ones may stand for padding."""


def reference_digest(case: Case) -> str:
    """Return a digest of what the model is asked and answers in a comparison; empty if that comes to no end.

    The calls are those of the case, in their order. Tokens that a file would have chosen are drawn at random, the same
    ones each time, so that no file is needed.
    """
    answers: list[str] = []
    try:
        with apply_patches(exclude=case.exclude):
            stand_in = StandIn(case.decoder())
        case.compare(stand_in, lambda: _Noted(case.decoder(), answers))
    except Exception:
        # Whoever wants to carry a result of this case has nothing to go by.
        return ""
    return digest_of(answers) if answers else ""


class StandIn:
    """Stands for a file in a comparison: it has the inputs and outputs of one, and gives tokens at random.

    Args:
        subject: the model with its calls.
    """

    path = Path("stand-in")

    def __init__(self, subject: Any) -> None:
        import torch

        interface = _calls_of(subject) if isinstance(subject, Forward) else interface_of(subject)
        self.inputs: dict[str, list[Any]] = dict(interface.shapes)
        self.outputs, self._dtypes = interface.outputs, interface.dtypes
        self._taken = {present_name(name): name for name in interface.dtypes}
        self.metadata: dict[str, str] = {}
        self._vocabulary = getattr(subject, "vocabulary", 0)
        self._generator = torch.Generator().manual_seed(0)

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""
        import torch

        return getattr(torch, self._dtypes[name])

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return logits for one token of each sequence, and a cache with nothing in it, of the types that it has."""
        import torch

        rows = next(iter(feeds.values())).shape[0]
        likely = torch.rand(rows, 1, self._vocabulary, generator=self._generator)
        likely[..., :_FIRST_TOKEN] = 0
        empty = {name: torch.zeros(0, dtype=self.dtype(taken)) for name, taken in self._taken.items()}
        return {name: likely if name == LOGITS else empty.get(name, torch.zeros(0)) for name in self.outputs}


def _calls_of(subject: Forward) -> Interface:
    """Return the names of what calls that stand alone take and give; no shape of an input is asked for."""
    names, outputs = subject.names(subject.sample(Sample()))
    return Interface({name: [] for name in names}, {}, outputs)


class _Noted:
    """A model whose calls are noted with what they give; all else is the model's.

    Args:
        subject: the model with its calls.
        answers: where they are noted.
    """

    def __init__(self, subject: Any, answers: list[str]) -> None:
        self._subject, self._answers = subject, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def __call__(self, inputs: Mapping[str, Any], cache: Any) -> tuple[Any, Any]:
        """Return what the model returns."""
        output, cache = self._noted(inputs, lambda: self._subject(inputs, cache))
        return output, cache

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the outputs of a call."""
        found: Sequence[Any] = self._noted(inputs, lambda: self._subject.run(inputs))
        return found

    def reference(self) -> "_Noted":
        """Return a copy whose state no call of this one changes."""
        return _Noted(self._subject.reference(), self._answers)

    def _noted(self, inputs: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        # A model may change what it is given.
        asked = [f"{name} {value_digest(value)}" for name, value in sorted(inputs.items())]
        found = call()
        self._answers.extend([*asked, *map(value_digest, found)])
        return found
