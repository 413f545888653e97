"""Cases that go the whole way of a user: a prompt, then `exportcompat.export`, which finds axes and names by itself.

The other cases bring axes and names of their own, so they cannot tell whether those that `export` finds are right.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch

import exportcompat
from exportcompat import apply_patches
from exportcompat._observer import observe
from exportcompat._verification import Discrepancy

from ._decoder import Sample
from ._forward import Forward, compare_calls

_MADE_BY_GENERATE = ("position_ids", "cache_position", "decoder_input_ids")
_PROMPT = Sample(batch=2, past=None, new=5)


def prompt(subject: Any) -> dict[str, Any]:
    """Return what a user of a model has at first: a text, images, sounds, and no cache."""
    inputs = subject.sample(_PROMPT)
    kept = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    return {name: value for name, value in kept.items() if name not in _MADE_BY_GENERATE}


def export_end_to_end(subject: Any, path: Path, applied: Collection[str]) -> None:
    """Export by `exportcompat.export`.

    Args:
        subject: the model with its calls.
        path: the file.
        applied: ids of the specs that are to be applied.
    """
    exportcompat.export(subject.model, prompt(subject), path, verify=False, patches={"include": list(applied)})


def export_window_cache(subject: Any, path: Path, applied: Collection[str]) -> None:
    """Export with layers that hold their window alone; what is right for some lengths only is an error."""
    exportcompat.export(
        subject.model,
        prompt(subject),
        path,
        verify=False,
        on_assumption="error",
        cache="window",
        patches={"include": list(applied)},
    )


def export_in_bfloat16(subject: Any, path: Path, applied: Collection[str]) -> None:
    """Export a copy in bfloat16, as the weights of most models are, to the opset with `RMSNormalization`."""
    exportcompat.export(
        subject.model,
        prompt(subject),
        path,
        opset=23,
        dtype="bfloat16",
        verify=False,
        patches={"include": list(applied)},
    )


def compare_in_bfloat16(path: Path, make: Callable[[], Any]) -> list[Discrepancy]:
    """Compare such a file with a fresh model in bfloat16."""

    def narrowed() -> Any:
        subject = make()
        subject.model.to(torch.bfloat16)
        return subject

    return compare_end_to_end(path, narrowed)


def compare_end_to_end(path: Path, make: Callable[[], Any]) -> list[Discrepancy]:
    """Compare a file with a fresh model as `InputObserver.check_discrepancies` does, at lengths of its own.

    A model without a cache is compared on the calls of the matrix too, because an observer knows few shapes of those.
    """
    subject = make()
    with apply_patches():
        observer = observe(subject.model, prompt(subject))
    others = compare_calls(path, make) if isinstance(subject, Forward) and not subject.model.can_generate() else []
    return [*observer.check_discrepancies(path), *others]


def compare_unpadded_end_to_end(path: Path, make: Callable[[], Any]) -> list[Discrepancy]:
    """Compare a file of a model that eager itself has no padding for, on the calls without any."""
    found = compare_end_to_end(path, make)
    return [row for row in found if "padding" not in row.group or "padding 0," in row.group]
