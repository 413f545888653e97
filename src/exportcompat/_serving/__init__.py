"""What makes a right graph fast: what it does not need, files that are derived for one runtime, smaller weights."""

from ._decoder_parts import drop_parts
from ._judge import check_parts
from ._lean import make_lean
from ._serve import serve
from ._served import Served
from ._targets import find_target
from ._weights import Weights, check_weights

__all__ = [
    "Served",
    "Weights",
    "check_parts",
    "check_weights",
    "drop_parts",
    "find_target",
    "make_lean",
    "serve",
]
