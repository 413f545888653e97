"""`Unchanged`: what a factory returns for a place that it leaves as it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unchanged:
    """A factory of replacements has looked at a place and leaves it as it is; the report says why.

    Attributes:
        reason: why, as a sentence without its full stop.
    """

    reason: str
