"""Models without a cache at the sizes of their sample, for lanes whose results take no others."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from exportcompat._verification import Discrepancy, Program
from exportcompat.matrix.cases import Case

_SHAPES: Mapping[str, Any] = {"qwen2_5_vl_vision": (((1, 16, 16),), ((1, 8, 32),), ((4, 8, 8),))}
"""Shapes of the sizes of the sample, by case, where there are any besides: other images of as many patches."""


def compare_fixed(case: Case, program: Program) -> list[Discrepancy]:
    """Compare a program with eager at shapes that a graph of fixed sizes takes."""
    return case.compare(program, partial(_fixed, case))


def _fixed(case: Case) -> Any:
    subject = case.decoder()
    subject.shapes = _SHAPES.get(case.name, (subject.traced,))
    return subject
