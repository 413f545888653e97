"""From a model to a file that is right: observe, export, write, compare."""

from ._export import export
from ._onnx_program import PREFIX
from ._steps import Exported

__all__ = [
    "PREFIX",
    "Exported",
    "export",
]
