"""SLANet writes the structure of a table in a loop that ends with the data.

Symptom: SLANet and SLANeXt: `Could not guard on data-dependent expression` at `if ....any(-1).all(): break`.
Cause: the head makes a token of a table at a time, from the one before, until each table of the batch has ended. The
loop is Python's, and so is the question.
What is done: while it is traced, the loop is torch's `while_loop`, which becomes ONNX' `Loop`: as many steps are run as
in eager. The scores of the steps that were run are returned. States and attentions of single steps, if they are asked
for, are not.
Can go: when upstream has the loop in an operator.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced


def patch_sla_head(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make `forward` of a head go on until all tables have ended, in the graph."""

    def traced(self: Any, hidden_states: Any, targets: Any = None, **kwargs: Any) -> Any:
        from torch.nn.functional import softmax
        from transformers.modeling_outputs import BaseModelOutput

        scores = softmax(_scores(self, hidden_states.float()), dim=-1)
        return BaseModelOutput(last_hidden_state=scores.to(hidden_states.dtype))

    return when_traced(original, traced)


def _scores(head: Any, image: Any) -> Any:
    """Return the scores of each step, `(batch, steps, tokens)`."""
    import torch
    from torch._higher_order_ops.while_loop import while_loop_op
    from torch.nn.utils.stateless import _reparametrize_module

    most, tokens = head.config.max_text_length + 1, head.config.out_channels
    weights = dict(head.named_parameters())

    def is_open(step: Any, state: Any, token: Any, ended: Any, scores: Any, *taken: Any) -> Any:
        return (step < most) & ~ended.all()

    def run(step: Any, state: Any, token: Any, ended: Any, scores: Any, image: Any, *taken: Any) -> tuple[Any, ...]:
        with _reparametrize_module(head, dict(zip(weights, taken, strict=True))):
            known = torch.nn.functional.one_hot(token, tokens).float()
            state, _ = head.structure_attention_cell(state, image, known)
            found = head.structure_generator(state)
        token = found.argmax(dim=1)
        is_here = torch.arange(most, device=step.device) == step
        scores = torch.where(is_here[None, :, None], found[:, None], scores)
        return step + 1, state, token, ended | (token == tokens - 1), scores

    batch = image.shape[0]
    begin = (
        torch.zeros((), dtype=torch.int64, device=image.device),
        image.new_zeros(batch, head.config.hidden_size),
        torch.zeros(batch, dtype=torch.int64, device=image.device),
        torch.zeros(batch, dtype=torch.bool, device=image.device),
        image.new_zeros(batch, most, tokens),
    )
    more = (image, *(weight.detach() for weight in weights.values()))
    steps, *_, scores = while_loop_op(is_open, run, begin, more)
    return scores.index_select(1, torch.arange(_number(steps, most), device=image.device))


def _number(steps: Any, most: int) -> Any:
    import torch

    number = torch.ops.aten._local_scalar_dense(steps)
    torch._check(number >= 1)
    torch._check(number <= most)
    return number


_FILES = {"slanet": "SLANet", "slanext": "SLANeXt"}

SPECS = variants(
    {
        "id": "slanet-steps",
        "targets": tuple(
            f"transformers.models.{file}.modeling_{file}:{kind}SLAHead.forward" for file, kind in _FILES.items()
        ),
        "replacement": f"{__name__}:patch_sla_head",
        "reason": "SLANet writes a table in a loop that ends with the data: no graph.",
        "upstream": tuple(source(f"models/{file}/modeling_{file}.py", "v5.24.0") for file in _FILES),
        "proofs": ("slanet", "slanext"),
        "kind": "wrap",
        "higher_order": ("while_loop",),
    },
    {"transformers>=5.24": {}},
)
