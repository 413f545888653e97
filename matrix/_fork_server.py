"""Functions run in processes of their own, forked from one that has imported what all of them need."""

import multiprocessing
import os
from collections.abc import Callable
from typing import Any

_PRELOADED = [
    "torch",
    "torch.onnx",
    "transformers.models.auto.modeling_auto",
    "transformers.modeling_outputs",
    "onnxscript",
]
_GRACE = 10
"""Seconds for a process to end after its result."""


class NoResultError(Exception):
    """A process ended, or was ended, before it returned anything."""


def run_forked(function: Callable[..., Any], arguments: tuple[Any, ...], timeout: float) -> Any:
    """Return what a function of a module returns in a new process; what it prints goes nowhere.

    Args:
        function: the function; it, its arguments and its result are pickled.
        arguments: its arguments.
        timeout: seconds after which the process is ended.

    Raises:
        NoResultError: it returned nothing, or not in time.
    """
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(timeout):
            raise NoResultError(f"no result after {timeout:g} s")
        return receiver.recv()
    except EOFError:
        process.join()
        raise NoResultError(f"the process ended with status {process.exitcode}") from None
    finally:
        # What it holds is given back where it ends by itself.
        process.join(_GRACE)
        process.kill()
        process.join()


def _send(sender: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    import torch

    torch.set_num_threads(1)
    sender.send(function(*arguments))
