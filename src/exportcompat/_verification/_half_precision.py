"""A file in half precision: compared as a copy in float32, and run as it is beside that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from exportcompat._extras import require

from ._discrepancy import WIDENED, Discrepancy, Share, allowed
from ._onnx_file import OnnxFile

_SHAKEN = 16
"""Copies with shaken weights that a call which is off is compared with, at most."""


@dataclass
class _Seen:
    """What was seen of a file as it is, beside its copy.

    Attributes:
        calls: how many there were.
        farthest: the largest difference, as a share of the largest element of the output.
        faults: for each call that cannot be right, what is wrong with it.
        ties: how many calls are near to a copy alone whose weights are off by what half precision rounds off.
    """

    calls: int = 0
    ties: int = 0
    farthest: float = 0.0
    faults: list[str] = field(default_factory=list)


class HalfPrecisionFile:
    """A file in float16 or bfloat16, run as a copy in float32 with the same weights.

    What a runtime rounds off in half precision differs from eager's, and experts that score alike change places by it,
    so that only the copy can be compared exactly. Where ONNX Runtime has the kernels, each call is also run as it is:
    it has to give numbers where the copy does, and most of them have to be near to the copy's. They are not where a
    rounding decides: of one token, other experts make other numbers throughout. So a call that is off is also run by
    copies whose weights are off by no more than a rounding, and is right if it is near to one of these.

    Args:
        file: the file, as ONNX Runtime has loaded it.
    """

    is_widened = True

    def __init__(self, file: OnnxFile) -> None:
        self.path, self.provider, self.half = file.path, file.provider, file.half
        self._own = None if file.is_widened else file
        self._file = file
        self._wide = file.in_float32()
        self.inputs, self.outputs = self._wide.inputs, self._wide.outputs
        self._dtype = getattr(require("torch", "torch"), self.half)
        self.ignores_padding = file.ignores_padding
        self._seen = _Seen()

    @property
    def metadata(self) -> dict[str, str]:
        """The `metadata_props` of the file."""
        return self._wide.metadata

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input of the copy."""
        return self._wide.dtype(name)

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of the copy by name, in float32, given tensors by name.

        Raises:
            Exception: what ONNX Runtime raises, for the copy or for the file.
        """
        results = self._wide.run(feeds)
        if self._own:
            self._look(self._own.run(feeds), results, feeds)
        return results

    def as_it_is(self) -> tuple[list[Discrepancy], list[str]]:
        """Return a failed row if the file as it is cannot be right, and else a sentence on how it was."""
        seen = self._seen
        if seen.faults:
            error = f"in {len(seen.faults)} of {seen.calls} calls of the file in {self.half}: {seen.faults[0]}"
            return [Discrepancy(call=f"run in {self.half}", error=error)], []
        if not self._own or not seen.calls:
            return [], []
        share = f"{seen.farthest:.1%} of the largest element"
        notes = [f"run in {self.half} too: its {seen.calls} calls are off from the copy by up to {share}"]
        if seen.ties:
            notes.append(
                f"in {seen.ties} of {seen.calls} calls in {self.half} most elements are off from the copy, and near to "
                f"one whose weights are off by what {self.half} rounds off: such as where two experts score alike"
            )
        return [], notes

    @property
    def tolerance(self) -> Share:
        """What the copy may be off, since numbers that stand in the file, such as factors, were rounded."""
        return WIDENED[self.half]

    def _look(self, found: Mapping[str, Any], wanted: Mapping[str, Any], feeds: Mapping[str, Any]) -> None:
        self._seen.calls += 1
        pairs = _pairs(found, wanted, feeds.get("attention_mask"))
        for name, (own, copy) in pairs.items():
            if not own[copy.isfinite()].isfinite().all():
                self._seen.faults.append(self._without_numbers(name))
                return
            self._seen.farthest = max(self._seen.farthest, _farthest(own, copy))
        off = [name for name, pair in pairs.items() if self._is_off(*pair)]
        # Of a file that has a fault no more has to be found out.
        if off and not self._seen.faults and self._is_tie(found, feeds):
            self._seen.ties += 1
        elif off:
            self._seen.faults.append(f"most elements of {off[0]!r} are off from the copy in float32")

    def _without_numbers(self, name: str) -> str:
        return (
            f"{name!r} has NaN or infinity where the copy in float32 has numbers; see whether the model itself "
            f"has them in {self.half}, and export in bfloat16 or float32 if it has"
        )

    def _is_off(self, found: Any, wanted: Any) -> bool:
        """Say whether most elements are."""
        apart, numbers = _apart(found, wanted), wanted[wanted.isfinite()]
        return bool(apart.numel()) and float(apart.median()) > allowed(numbers.to(self._dtype))

    def _is_tie(self, found: Mapping[str, Any], feeds: Mapping[str, Any]) -> bool:
        """Say whether a copy with shaken weights gives what the file gives."""
        mask = feeds.get("attention_mask")
        for seed in range(_SHAKEN):
            pairs = _pairs(found, self._file.in_float32(seed).run(feeds), mask)
            if not any(self._is_off(*pair) for pair in pairs.values()):
                return True
        return False


def _pairs(found: Mapping[str, Any], wanted: Mapping[str, Any], mask: Any) -> dict[str, tuple[Any, Any]]:
    """Return what is compared of the outputs of floats, in float32."""
    floats = {name: tensor for name, tensor in wanted.items() if tensor.is_floating_point() and tensor.numel()}
    return {name: (_of_text(found[name].float(), mask), _of_text(tensor, mask)) for name, tensor in floats.items()}


def _apart(found: Any, wanted: Any) -> Any:
    """Return how far elements are apart, where there are numbers."""
    return (found - wanted)[wanted.isfinite()].abs()


def _farthest(found: Any, wanted: Any) -> float:
    """Return the largest difference, as a share of the largest element."""
    apart = _apart(found, wanted)
    return float(apart.max()) / max(1.0, float(wanted[wanted.isfinite()].abs().max())) if apart.numel() else 0.0


def _of_text(tensor: Any, mask: Any) -> Any:
    """Return what a decoder gives for tokens that are no padding, as rows; whatever else as it is.

    A token of padding may attend to nothing. What it gives then depends on how much of the scores the smallest number
    of the type leaves, which differs between types and runtimes, and means nothing.

    Args:
        tensor: `(batch, new tokens, ...)`, or keys or values, `(batch, heads, tokens, channels)`.
        mask: `(batch, tokens)`, or None.
    """
    if mask is None or mask.dim() != 2 or tensor.dim() < 3 or tensor.shape[0] != mask.shape[0]:
        return tensor
    is_text, tokens = mask.bool(), mask.shape[1]
    if tensor.dim() == 4 and tensor.shape[2] == tokens:
        return tensor.transpose(1, 2)[is_text]
    return tensor[is_text[:, tokens - tensor.shape[1] :]] if tensor.shape[1] <= tokens else tensor
