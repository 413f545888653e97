"""The model inside of what was put around it: adapters of PEFT, which are layers of it, and `torch.compile`."""

import sys
from typing import Any

from exportcompat.registry import ExportCompatError


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
