"""All experts in one loop of the graph: its body is there once, and each turn multiplies the rows of one expert."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from exportcompat.patches.toolkit.tracing import is_traced


def patch_grouped_mm_experts_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run the experts in a `scan` while they are traced."""

    def grouped_mm_experts_forward(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        # The TorchScript exporter has no `scan`.
        if not is_traced(hidden_states) or torch.jit.is_tracing():
            return original(self, hidden_states, top_k_index, top_k_weights)
        return _scanned(self, hidden_states, top_k_index, top_k_weights)

    return grouped_mm_experts_forward


def patch_own_experts_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run experts in a `scan` while they are traced; those that LongCat has behind them return what they are given."""

    def forward(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        count = self.num_routed_experts if hasattr(self, "num_routed_experts") else self.num_experts
        if not is_traced(hidden_states) or torch.jit.is_tracing() or self.gate_up_proj is None:
            return original(self, hidden_states, top_k_index, top_k_weights)
        made = _scanned(_own_experts(self, count), hidden_states, top_k_index, top_k_weights)
        if not hasattr(self, "num_routed_experts"):
            return made
        unchanged = torch.where(top_k_index >= count, top_k_weights, 0.0).sum(1, keepdim=True) * hidden_states
        return made + unchanged.to(made.dtype)

    return forward


def _own_experts(experts: Any, count: int) -> Any:
    """Return what is asked of a module of experts, for the `count` that have weights."""

    def apply_gate(gate_up: Any) -> Any:
        gate, up = gate_up.chunk(2, dim=-1)
        return experts.act_fn(gate) * up

    return SimpleNamespace(
        num_experts=count,
        gate_up_proj=experts.gate_up_proj[:count],
        down_proj=experts.down_proj,
        has_bias=False,
        is_transposed=False,
        _apply_gate=getattr(experts, "_apply_gate", apply_gate),
    )


def _scanned(experts: Any, states: Any, chosen: Any, shares: Any) -> Any:
    """Return the sum of what the chosen experts make of each token.

    Args:
        experts: the module with the weights of all experts.
        states: `(tokens, hidden)`.
        chosen: `(tokens, top_k)`, the numbers of the experts; one beyond the last stands for none.
        shares: `(tokens, top_k)`.

    Returns:
        `(tokens, hidden)`.
    """
    from torch._higher_order_ops.scan import scan

    states, shares, norm = states.detach(), shares.detach(), _norm(experts)
    total = torch.zeros_like(states, dtype=torch.promote_types(states.dtype, torch.float32))

    def step(total: Any, expert: tuple[Any, ...]) -> tuple[Any, Any]:
        share, weights = expert[0], dict(zip(names, expert[1:], strict=True))
        tokens = share.nonzero().squeeze(1)
        made = norm(_made(experts, weights, states.index_select(0, tokens))) * share.index_select(0, tokens)[:, None]
        return total.index_add(0, tokens, made.to(total.dtype)), tokens.new_zeros(1)

    parameters = _parameters(experts)
    names = tuple(parameters)
    by_expert = _by_expert(chosen, shares, experts.num_experts)
    last, _ = scan(step, total, (by_expert, *(item.detach() for item in parameters.values())))
    return last.to(states.dtype)


def _by_expert(chosen: Any, shares: Any, experts: int) -> Any:
    """Return the share of each expert in each token, `(experts, tokens)`; 0 where it was not chosen."""
    # Expert parallelism marks what is another's by the number behind the last.
    # A table that sends tokens to experts by their number (`hash_moe`) may name one twice for a token.
    # ONNX Runtime adds while it scatters in float32, and not in half precision.
    wide = shares.to(torch.promote_types(shares.dtype, torch.float32))
    found = wide.new_zeros(shares.shape[0], experts + 1).scatter_add(1, chosen.clamp(max=experts), wide)
    return found[:, :experts].transpose(0, 1).contiguous().to(shares.dtype)


def _parameters(experts: Any) -> dict[str, Any]:
    """Return the parameters whose first axis is the expert."""
    first = "gate_up_proj" if getattr(experts, "has_gate", True) else "up_proj"
    names = [name for stem in (first, "down_proj") for name in (stem, f"{stem}_bias")[: 1 + experts.has_bias]]
    return {name: getattr(experts, name) for name in names}


def _made(experts: Any, weights: dict[str, Any], rows: Any) -> Any:
    """Return what one expert makes of `rows`, `(rows, hidden)`."""
    has_gate = getattr(experts, "has_gate", True)
    first = _linear(experts, weights, "gate_up_proj" if has_gate else "up_proj", rows)
    inner = experts._apply_gate(first) if has_gate else experts.act_fn(first)
    return _linear(experts, weights, "down_proj", inner)


def _norm(experts: Any) -> Callable[[Any], Any]:
    """Return what is done with the results of each expert; its weights are no parameters, as `scan` takes none."""
    if not getattr(experts, "has_post_expert_norm", False):
        return lambda made: made
    norm = experts.post_expert_norm
    weights = {name: weight.detach() for name, weight in norm.named_parameters()}
    return lambda made: torch.func.functional_call(norm, weights, (made,))


def _linear(experts: Any, weights: dict[str, Any], name: str, rows: Any) -> Any:
    weight, bias = weights[name], weights.get(f"{name}_bias")
    made = rows.to(weight.dtype) @ (weight if experts.is_transposed else weight.transpose(0, 1))
    return made if bias is None else made + bias
