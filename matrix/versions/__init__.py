"""Releases and pairs of them: which there are, which are run, and where the ranges of specs end."""

from ._cells import Cell, all_cells, cases_of, choose, default_cells, season_cells, shard
from ._find_seasons import write_seasons
from ._range_ends import End, admits, ends_of, place_of, proofs_at_ends, variants
from ._releases import add_releases
from ._version_axes import PYTHON, exclusion, policy, releases

__all__ = [
    "PYTHON",
    "Cell",
    "End",
    "add_releases",
    "admits",
    "all_cells",
    "cases_of",
    "choose",
    "default_cells",
    "ends_of",
    "exclusion",
    "place_of",
    "policy",
    "proofs_at_ends",
    "releases",
    "season_cells",
    "shard",
    "variants",
    "write_seasons",
]
