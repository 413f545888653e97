"""Proofs that specs are needed: on what is installed, at the ends of ranges, by walking releases, in the lock file."""

from ._backtest import backtest, begun, to_markdown
from ._backtest_report import backtest_report
from ._bisect import bisect
from ._fingerprints import Options, refresh, surveys
from ._name_backtest import Adaptation, adaptations, name_events
from ._probes import BisectionRuns
from ._prove import prove
from ._range_verdicts import prove_boundaries

__all__ = [
    "Adaptation",
    "BisectionRuns",
    "Options",
    "adaptations",
    "backtest",
    "backtest_report",
    "begun",
    "bisect",
    "name_events",
    "prove",
    "prove_boundaries",
    "refresh",
    "surveys",
    "to_markdown",
]
