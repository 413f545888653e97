"""Whether the installed transformers has what a case is about."""

import importlib
import importlib.util
import sys
from inspect import signature


def has_model(name: str) -> bool:
    """Say whether the installed transformers has a folder of this model."""
    name = f"transformers.models.{name}"
    # A folder that has been imported has no `__spec__` in some releases, and then `find_spec` raises.
    return name in sys.modules or importlib.util.find_spec(name) is not None


def has_model_class(name: str, kind: str) -> bool:
    """Say whether the installed transformers has a folder of this model, with a class of this name in it."""
    return has_model(name) and hasattr(importlib.import_module(f"transformers.models.{name}.modeling_{name}"), kind)


def has_clip_of_any_size() -> bool:
    """Say whether CLIP takes images of other sizes than it has learnt from; it does from 4.46 on."""
    clip = importlib.import_module("transformers.models.clip.modeling_clip")
    return "interpolate_pos_encoding" in signature(clip.CLIPModel.forward).parameters


def slides_without_counting() -> bool:
    """Say whether layers of a fixed size that slide go by tensors alone; to 4.55 they do."""
    import transformers.cache_utils as caches

    return hasattr(caches, "HybridCache") and not hasattr(caches, "DynamicSlidingWindowLayer")


def has_experts_interface() -> bool:
    """Say whether a model can be asked how it runs its experts; from 5.0 on it can."""
    return importlib.util.find_spec("transformers.integrations.moe") is not None


def has_experts_on_hit(name: str) -> bool:
    """Say whether a model has a loop over experts that were hit, of which there is a graph.

    From 5.0 on it is in a class of experts. Before, NLLB-MoE goes through all of them, and Switch has the loop itself.
    """
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    has_loop = name == "switch_transformers" and importlib.util.find_spec("transformers.masking_utils") is not None
    return has_loop or any(item.endswith("Experts") for item in vars(module))
