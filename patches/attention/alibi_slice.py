"""MPT cuts a bias of one row by a symbolic number of rows.

Symptom: `The following inconsistencies were found: Eq(s70 + Max(0, -s11 - 2*s70 + 1), 1) is inconsistent`: MPT.
Cause: the alibi bias, `(heads, 1, max_seq_len)`, is cut from row `max(0, 1 - rows)`. There is always one row more than
that, but the expression is not resolved, and what is left of one row has an unknown size.
What is done: while it is traced, the bias is said to have no row to cut.
Can go: when upstream cuts the columns alone. It begins with 5.2.0, whose model counts positions in other symbols;
5.1.0, whose attention has the same source, exports without it (5.1.0, 5.2.0, 5.3.0 and 5.4.0 were run), and torch 2.6
and 2.7 do without (2.6.0 and 2.7.0 were run); torch 2.8 captures it another way, by `torch.jit.trace`.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def cutting_columns_only(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `forward` of MPT's attention that leaves the one row of its bias alone while it is traced."""
    import torch
    from torch.overrides import TorchFunctionMode

    from exportcompat.patches.toolkit.tracing import is_traced

    class NoRowToCut(TorchFunctionMode):  # type: ignore[misc]  # torch has no types for it in every release.
        """Answer with 0 how many rows the bias has."""

        def __init__(self, bias: Any) -> None:
            super().__init__()
            self._bias = bias

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.size and args[0] is self._bias and args[1:] == (1,):
                return 0
            return func(*args, **(kwargs or {}))

    def forward(self: Any, hidden_states: Any, position_bias: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_traced(hidden_states) or position_bias is None or position_bias.shape[1] != 1:
            return original(self, hidden_states, position_bias, *args, **kwargs)
        with NoRowToCut(position_bias):
            return original(self, hidden_states, position_bias, *args, **kwargs)

    return forward


SPECS = (
    PatchingSpec(
        id="alibi-slice",
        targets=("transformers.models.mpt.modeling_mpt:MptAttention.forward",),
        replacement=f"{__name__}:cutting_columns_only",
        requires=("transformers>=5.2", "torch>=2.8"),
        reason="The one row of an alibi bias is cut by a symbolic number of rows: no graph.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/mpt/modeling_mpt.py",
        ),
        proofs=("mpt",),
        defect=(r"position_bias\[:, \w+:, \w+:\]",),
        kind="wrap",
    ),
)
