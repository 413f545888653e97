"""What was observed of a model in half precision, of a copy of it in float32: what a copy of its file computes."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from exportcompat._api import apply_patches
from exportcompat._extras import require
from exportcompat.patches.toolkit.module_state import preserved

from ._record import Part, Record, take_result


def in_float32(model: Any, method: str, records: Sequence[Record]) -> tuple[Any, list[Record]]:
    """Return a copy of a model in float32, with the same weights, and what it returns for the stored calls.

    Raises:
        Exception: what the model raises if it does not run in float32.
    """
    torch = require("torch", "torch")
    wide = copy.deepcopy(model).float()
    made = []
    for record in records:
        given = _widened(record.inputs)
        with torch.no_grad(), apply_patches(), preserved(wide):
            found = take_result(getattr(wide, method)(**given.arguments()))
        # A result that the stored call does not have is none of the file.
        made.append(replace(record, inputs=given, outputs=_kept(found, record.outputs)))
    return wide, made


def _widened(part: Part) -> Part:
    """Return arguments with floats in float32."""
    tensors = {path: item.float() if item.is_floating_point() else item for path, item in part.tensors.items()}
    return replace(part, tensors=tensors)


def _kept(found: Part, known: Part) -> Part:
    return replace(found, tensors={path: item for path, item in found.tensors.items() if path in known.tensors})
