"""Proofs that specs are needed: on what is installed, at the ends of ranges, by walking releases, in the lock file."""

from ._backtest import backtest, begun, to_markdown
from ._bisect import bisect
from ._fingerprints import Options, refresh, surveys
from ._probes import BisectionRuns
from ._prove import prove
from ._range_verdicts import prove_boundaries

__all__ = [
    "BisectionRuns",
    "Options",
    "backtest",
    "begun",
    "bisect",
    "prove",
    "prove_boundaries",
    "refresh",
    "surveys",
    "to_markdown",
]
