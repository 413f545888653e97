"""Experts for tools that have no `scan`: products of a batch, which lower to core ATen."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

COST = """\
Experts are a `scan` by default, which this lane does not take. `set_experts_implementation("batched_mm")` of
transformers 5 is right here too. It copies the weights of the chosen experts for each token, as it does in eager: good
for one token, and not for a long text.
"""
"""What a reader of a lane is told."""

LINE = """\
model.set_experts_implementation("batched_mm")  # a model with experts
"""
"""What a user writes before."""


@contextmanager
def batched_experts(model: Any) -> Iterator[None]:
    """Let a model with experts choose the weights of each token and multiply them in one batch, while it is open.

    Args:
        model: of transformers; one without experts stays as it is.
    """
    choose = getattr(model, "set_experts_implementation", None)
    if choose is None:
        yield
        return
    before = model.config._experts_implementation
    choose("batched_mm")
    try:
        yield
    finally:
        # Eager is compared with what it was before.
        choose(before)
