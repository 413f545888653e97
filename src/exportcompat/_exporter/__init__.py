"""From a model to a file that is right: observe, export, write, compare."""

from ._companion_files import copy_companions
from ._export import export, export_plainly
from ._opset import check_opset
from ._steps import Exported

__all__ = [
    "Exported",
    "check_opset",
    "copy_companions",
    "export",
    "export_plainly",
]
