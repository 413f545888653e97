"""Releases and pairs of them: which there are, which are run, and where the ranges of specs end."""

from ._cells import Cell, all_cells, cases_of, choose, default_cells, season_cells, shard
from ._find_seasons import write_seasons
from ._range_ends import Boundary, admits, boundaries_of, place_of, proofs_at_boundaries, recorded_proof, variants
from ._releases import add_releases
from ._version_axes import PYTHON, PYTHONS, exclusion, policy, releases, seasons

__all__ = [
    "PYTHON",
    "PYTHONS",
    "Boundary",
    "Cell",
    "add_releases",
    "admits",
    "all_cells",
    "boundaries_of",
    "cases_of",
    "choose",
    "default_cells",
    "exclusion",
    "place_of",
    "policy",
    "proofs_at_boundaries",
    "recorded_proof",
    "releases",
    "season_cells",
    "seasons",
    "shard",
    "variants",
    "write_seasons",
]
