"""What makes a right graph fast: heads that are shared, files that are derived for one runtime, smaller weights."""

from ._grouped_heads import share_heads
from ._serve import Served, serve
from ._targets import find_target
from ._weights import Weights, check_weights

__all__ = [
    "Served",
    "Weights",
    "check_weights",
    "find_target",
    "serve",
    "share_heads",
]
