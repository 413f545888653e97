"""torch refuses a model whose `forward` stores something on it.

Symptom: `Node arity mismatch; expected 14, but got 16` (torch 2.6 to 2.8) or `following attrs were created in the
model.forward` (2.9): LLaVA-NeXT-Video, which notes on itself which layer of its tower it takes, and every model that
stores something new. Where the attribute is a tensor and was there before: `The tensor attribute ... was assigned`.
Cause: the attributes of the model before and after tracing are compared as trees, which must have the same names.
What is done: the attributes are given back before torch compares, with a warning that a graph stores none.
Can go: with torch 2.9; from 2.10 on torch warns, too.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_detect_attribute_assignment(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `_detect_attribute_assignment` give attributes back and warn of those that are tensors."""
    from exportcompat.patches.toolkit.module_state import give_back, is_with_next_try

    @contextmanager
    def _detect_attribute_assignment(mod: Any) -> Iterator[None]:
        before = after = dict(vars(mod))
        try:
            with original(mod):
                try:
                    yield
                finally:
                    after = dict(vars(mod))
                    give_back(vars(mod), before)
        except BaseException:
            if is_with_next_try():
                # Marks of what `forward` has installed belong to the next try, as the installed itself does.
                give_back(vars(mod), after)
            raise
        if names := _assigned(after, before):
            said = f"forward stores tensors on the model, which a graph does not: {', '.join(names)}"
            warnings.warn(said, stacklevel=2)

    return _detect_attribute_assignment


def _assigned(after: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """Return the names of tensors that are new, or others than before."""
    import torch

    changed = (name for name, value in after.items() if value is not before.get(name))
    return sorted(name for name in changed if isinstance(after[name], torch.Tensor))


SPECS = (
    PatchingSpec(
        id="torch-export-new-attributes",
        targets=("torch.export._trace:_detect_attribute_assignment",),
        replacement=f"{__name__}:patch_detect_attribute_assignment",
        requires=("torch>=2.6,<2.10",),
        reason="What forward stores on the model changes its structure, which torch refuses: no graph.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.6.0/torch/_functorch/aot_autograd.py",),
        proofs=("stateful_gpt",),
        kind="wrap",
    ),
)
