"""What a graph is traced with has no values for the code of a model.

Symptom: `Could not guard on data-dependent expression`, for models that go through their images by sizes that are data.
Cause: `torch.export` runs a model with tensors that have shapes alone.
What is done: while a graph is captured, other patches can ask for the values of the sample, by the name of an argument.
Those that do so let the graph check that a call has the same.
Can go: with the last patch that asks.
"""

import inspect
from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_make_fake_inputs(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `make_fake_inputs`, made to keep what the tensors without values stand for."""

    def make_fake_inputs(nn_module: Any, args: Any, kwargs: Any, *others: Any, **more: Any) -> Any:
        from exportcompat.patches.toolkit.sample_values import keep_sample

        made = original(nn_module, args, kwargs, *others, **more)
        try:
            given = inspect.signature(nn_module.forward).bind(*args, **(kwargs or {})).arguments
        except (TypeError, ValueError):
            # Some modules have other arguments than they say; then nothing is known of them.
            given = {}
        keep_sample(made[0], given)
        return made

    return make_fake_inputs


SPECS = (
    PatchingSpec(
        id="torch-export-sample-values",
        targets=("torch.export._trace:make_fake_inputs",),
        replacement=f"{__name__}:patch_make_fake_inputs",
        requires=("transformers>=5.24", "torch>=2.13"),
        reason="The sizes of images are data, and some models loop over them: no graph without those of the sample.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/export/_trace.py",),
        proofs=("video_llama_3_export",),
        kind="wrap",
    ),
)
