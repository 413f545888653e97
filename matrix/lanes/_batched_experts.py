"""Experts for tools that have no `scan`: products of a batch, which lower to core ATen."""

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


def with_batched_experts(subject: Any) -> Any:
    """Let a model with experts choose the weights of each token and multiply them in one batch.

    Args:
        subject: a decoder or a `Forward`; one without experts stays as it is.

    Returns:
        `subject`.
    """
    choose = getattr(subject.model, "set_experts_implementation", None)
    if choose is not None:
        choose("batched_mm")
    return subject
