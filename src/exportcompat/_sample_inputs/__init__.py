"""What a model is for, and inputs to run it on: made from its configuration, by its processors, or read from files."""

from ._made_inputs import completed
from ._media import Given, check_given
from ._model_inputs import Call, InputMaker, facts
from ._processors import Processors
from ._tasks import TASKS, WITH_PAST, Task, check_task, task_of

__all__ = [
    "TASKS",
    "WITH_PAST",
    "Call",
    "Given",
    "InputMaker",
    "Processors",
    "Task",
    "check_given",
    "check_task",
    "completed",
    "facts",
    "task_of",
]
