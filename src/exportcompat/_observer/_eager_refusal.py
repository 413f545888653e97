"""Does a model itself take a call?"""

from collections.abc import Callable
from typing import Any

from exportcompat._extras import require
from exportcompat.patches.toolkit.module_state import preserved


def eager_refusal(model: Any, call: Callable[[], Any]) -> Exception | None:
    """Return what a call of a model raises; None if it runs. The model is as before afterwards.

    Args:
        model: the module.
        call: makes the call.
    """
    torch = require("torch", "torch")
    try:
        with torch.no_grad(), preserved(model):
            call()
    except Exception as error:
        # Models raise exceptions of any class for what they do not take.
        return error
    return None
