"""From a model to a file that is right: observe, export, write, compare."""

from ._export import export
from ._steps import Exported

__all__ = [
    "Exported",
    "export",
]
