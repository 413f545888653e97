"""The model inside of what was put around it: adapters of PEFT, which are layers of it, and `torch.compile`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.registry import ExportCompatError

_ORIGINAL = "_torchdynamo_orig_callable"
"""Where a function that `torch.compile` returns has the one that it was given."""


def inner_model(model: Any) -> Any:
    """Return the model whose `forward` is exported; its adapters are in it, merged or not, as they are.

    Raises:
        ExportCompatError: PEFT adds to what is given to the model, such as a prompt, and not to its layers.
    """
    compiled = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())
    if isinstance(model, compiled):
        return inner_model(model._orig_mod)
    adapted = getattr(sys.modules.get("peft"), "PeftModel", ())
    if not isinstance(model, adapted):
        return model
    config = model.active_peft_config
    if getattr(config, "is_prompt_learning", False):
        raise ExportCompatError(
            f"the adapter of {type(model).__name__} is a {type(config).__name__}, which puts learned tokens before the "
            "text and is not in the layers of the model; export adapters that are, such as LoRA, or give "
            "get_base_model() and the tokens as inputs_embeds"
        )
    return inner_model(model.get_base_model())


@contextmanager
def as_written(model: Any) -> Iterator[None]:
    """Let the modules of a model run their own code, where `compile()` or `torch.compile(forward)` stands before it.

    What is watched, traced and compared is eager; Dynamo would follow the observer into itself.
    """
    calls, forwards = [], []
    for module in model.modules() if hasattr(model, "modules") else ():
        if getattr(module, "_compiled_call_impl", None) is not None:
            calls.append((module, module._compiled_call_impl))
        if hasattr(vars(module).get("forward"), _ORIGINAL):
            forwards.append((module, vars(module)["forward"]))
    for module, _ in calls:
        module._compiled_call_impl = None
    for module, forward in forwards:
        vars(module)["forward"] = getattr(forward, _ORIGINAL)
    try:
        yield
    finally:
        for module, call in calls:
            module._compiled_call_impl = call
        for module, forward in forwards:
            vars(module)["forward"] = forward
