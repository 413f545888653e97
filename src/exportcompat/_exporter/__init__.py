"""From a model to a file that is right: observe, export, write, compare."""

from ._companion_files import copy_companions
from ._export import check_cache, check_serve, export, export_plainly
from ._opset import check_opset
from ._steps import Exported

__all__ = [
    "Exported",
    "check_cache",
    "check_opset",
    "check_serve",
    "copy_companions",
    "export",
    "export_plainly",
]
