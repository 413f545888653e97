"""The runtimes that files are derived for, and what is tried for each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import DEVICES, Contract, check_provider
from exportcompat.registry import ExportCompatError

from ._grouped_query import group_queries
from ._last_logits import keep_last
from ._no_padding import attend_without_masks
from ._skip_norms import join_sums_with_norms


@dataclass(frozen=True)
class Derivation:
    """One change of a graph.

    Attributes:
        name: what reports call it.
        change: does it, given an `onnx_ir.Model`, and returns in how many places.
        contract: the calls that the graph is right for afterwards.
    """

    name: str
    change: Callable[[Any], int]
    contract: Contract


@dataclass(frozen=True)
class Target:
    """Where a file shall run.

    Attributes:
        name: as users write it.
        provider: of ONNX Runtime.
        derivations: what is tried, in this order, each on top of those that were kept.
    """

    name: str
    provider: str
    derivations: tuple[Derivation, ...]


def _with_own_norms(change: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a change that, where it has a place, takes ONNX Runtime's operators for norms, too."""

    def both(model: Any) -> int:
        done = change(model)
        return done + join_sums_with_norms(model) if done else 0

    return both


_LAST_LOGITS = Derivation("last-logits", keep_last, Contract(last_logits=True))
_GROUPED_QUERY = Derivation("grouped-query", _with_own_norms(group_queries), Contract(chunk_batch=1))
_NO_PADDING = Derivation("no-padding", _with_own_norms(attend_without_masks), Contract(chunk_batch=1, padding=False))
"""On a CPU alone: a GPU does not refuse the lookup that keeps calls with padding out."""

TARGETS = {
    item.name: item
    for item in (
        Target("cpu", "CPUExecutionProvider", (_LAST_LOGITS, _GROUPED_QUERY, _NO_PADDING)),
        Target("cuda", "CUDAExecutionProvider", (_LAST_LOGITS, _GROUPED_QUERY)),
        Target("webgpu", "WebGpuExecutionProvider", (_LAST_LOGITS, _GROUPED_QUERY)),
    )
}


def find_target(name: str, *, unverified: bool = False) -> Target:
    """Return a target.

    Args:
        name: of it.
        unverified: whether a file shall be derived that cannot be run here.

    Raises:
        ExportCompatError: there is none of this name, or it cannot be run here.
        MissingExtraError: onnxruntime is not installed.
    """
    if name not in TARGETS:
        raise ExportCompatError(f"the target {name!r} is not known; write one of {', '.join(TARGETS)}")
    target = TARGETS[name]
    if unverified:
        require("onnxruntime", "onnx")
        return target
    how = "derive one without a comparison by unverified=True (--unverified), and compare it where it runs"
    if target.provider not in DEVICES:
        raise ExportCompatError(f"files for {name!r} need {target.provider}, which has no way to be compared; {how}")
    try:
        check_provider(target.provider)
    except ExportCompatError as error:
        raise ExportCompatError(f"files for {name!r} are compared where they run: {error}. Or {how}") from error
    return target
