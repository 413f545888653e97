"""`torch.export.export`, saved by `torch.export.save` and loaded in another process."""

from functools import partial
from pathlib import Path
from typing import Any

from exportcompat.matrix.cases import by_torch_export

from ._batched_experts import COST, LINE, batched_experts
from ._lane import Lane


def capture_strictly(subject: Any) -> Any:
    """Capture a model by Dynamo, without `scan` for its experts."""
    with batched_experts(subject.model):
        return by_torch_export.capture(subject, strict=True)


def convert(program: Any, _: Any, folder: Path) -> None:
    """Save a program."""
    import torch

    torch.export.save(program, folder / by_torch_export.FILE)


_lane = partial(
    Lane, convert=convert, load=by_torch_export.load, how_dynamic="batch, lengths, sizes of images: all dynamic"
)

LANES = (
    _lane(
        name="torch-export",
        title="`torch.export`, `strict=False`",
        capture=by_torch_export.capture,
        snippet="""\
with apply_patches(), torch.no_grad():
    program = torch.export.export(model, (), kwargs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, "model.pt2")

import transformers.modeling_outputs  # in a process that has no model: torch looks up the classes of the results

with apply_patches():  # where a cache is among the arguments: torch looks its class up
    outputs = torch.export.load("model.pt2").module()(**kwargs)
""",
    ),
    _lane(
        name="torch-export-strict",
        title="`torch.export`, `strict=True`",
        capture=capture_strictly,
        snippet=f"""\
{LINE}with apply_patches(), torch.no_grad():
    program = torch.export.export(model, (), kwargs, dynamic_shapes=shapes, strict=True)
    torch.export.save(program, "model.pt2")
""",
        notes=f"""\
Dynamo traces the patches as well as the model, and does not take all that they do: a window (Mistral) and towers for
images (Qwen2.5-VL) are refused. `strict=False`, the default, takes all of them.

{COST}""",
    ),
)
