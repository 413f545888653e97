"""Running cases: one cell in its processes, all cells in their environments, and the quickstart."""

from ._audit import audit
from ._cell import run_cell
from ._driver import Options, Task, plan_task, results_of, run_tasks
from ._environments import Environments
from ._matrix import run_matrix
from ._quickstart import quickstart
from ._subprocess_check import run_check

__all__ = [
    "Environments",
    "Options",
    "Task",
    "audit",
    "plan_task",
    "quickstart",
    "results_of",
    "run_cell",
    "run_check",
    "run_matrix",
    "run_tasks",
]
