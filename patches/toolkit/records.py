"""Records of specs that differ by release: what they have in common once, and support floors that nobody writes."""

import sys
from collections.abc import Mapping
from typing import Any

from exportcompat.registry import PatchingSpec, SpecError

TORCH = "torch>=2.6"
"""The oldest torch that is supported; a record that names transformers alone is for this one and all later ones."""


def source(path: str, tag: str) -> str:
    """Return the link to a source of transformers.

    Args:
        path: below `src/transformers`, such as `models/jamba/modeling_jamba.py`.
        tag: a tag or commit, such as `v4.44.2`.
    """
    return f"https://github.com/huggingface/transformers/blob/{tag}/src/transformers/{path}"


def variants(base: Mapping[str, Any], changes: Mapping[str | tuple[str, ...], Mapping[str, Any]]) -> tuple[Any, ...]:
    """Return a record for each range.

    Args:
        base: fields of `PatchingSpec` that the variants have in common.
        changes: for each range, a requirement string or several, the fields that it has beside `base`, or otherwise.

    Raises:
        SpecError: a field is malformed; see `PatchingSpec`. `requires` is the range, and is no field beside it.
    """
    for ranges, fields in changes.items():
        if "requires" in {**base, **fields}:
            raise SpecError(
                f"spec {base.get('id')!r}: `requires` is given beside the range {ranges!r}; "
                "write all packages into the range"
            )
    frame = sys._getframe(1)
    # The area and messages name whoever writes the record down, and not this function.
    definer = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return tuple(
        PatchingSpec(**{"definer": definer, **base, **fields, "requires": _with_floor(ranges)})
        for ranges, fields in changes.items()
    )


def _with_floor(ranges: str | tuple[str, ...]) -> tuple[str, ...]:
    found = (ranges,) if isinstance(ranges, str) else ranges
    return found if any(text.startswith("torch") for text in found) else (*found, TORCH)
