"""What makes a right graph fast: heads that are shared, files that are derived for one runtime, smaller weights."""

from ._grouped_heads import share_heads

__all__ = [
    "share_heads",
]
