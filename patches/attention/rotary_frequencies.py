"""Rotary frequencies that depend on the sequence length are chosen by a Python `if` on data.

Symptom: dynamic NTK (every release) and longrope (to 5.20) do not export (`GuardOnDataDependentSymNode`), or the
TorchScript exporter keeps the branch of the sample without a word. longrope from 5.21 exports, and leaves a
FakeTensor on the model.
Cause: `dynamic_rope_update` compares `max(position_ids) + 1` with the limit and stores the result on the module.
What is done: every method that the decorator made is replaced. While it is traced, both sets of frequencies are in
the graph, `torch.where` picks one for each call, and nothing is stored. Eager calls go to the original. A graph has
no memory, so dynamic NTK scales by the length of the call at hand; eager transformers does the same as long as the
lengths of its calls do not shrink between the limit and the longest one seen.
Can go: when both frequency updates are traceable and leave no trace on the module.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exportcompat.patches.toolkit.records import source, variants

_ROPE = "transformers.modeling_rope_utils"
_SWITCHED = ("dynamic", "longrope")


def patch_rope_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a rotary `forward(x, position_ids)` of transformers 4.x with both branches while it is traced."""
    forward_with = _undecorated(original)

    def forward(self: Any, x: Any, position_ids: Any) -> Any:
        if not _is_switched(self.rope_type, position_ids):
            return original(self, x, position_ids)
        limit, frequencies = _limit_4(self), _init_4(self, x.device)
        chosen = _choose(self.rope_type, position_ids, limit, frequencies, self.original_inv_freq)
        with _set(self, "inv_freq", chosen):
            return forward_with(self, x, position_ids)

    return forward


def patch_layered_rope_forward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Compute a rotary `forward(x, position_ids, layer_type=None)` of transformers 5.x with both branches."""
    forward_with = _undecorated(original)

    def forward(self: Any, x: Any, position_ids: Any, layer_type: str | None = None) -> Any:
        rope_type = self.rope_type if layer_type is None else self.rope_type[layer_type]
        kwargs = {} if layer_type is None else {"layer_type": layer_type}
        if not _is_switched(rope_type, position_ids):
            return original(self, x, position_ids, **kwargs)
        prefix = "" if layer_type is None else f"{layer_type}_"
        limit, frequencies = _limit_5(self, rope_type, layer_type), _init_5(self, rope_type, x.device, layer_type)
        normal = getattr(self, f"{prefix}original_inv_freq")
        with _set(self, f"{prefix}inv_freq", _choose(rope_type, position_ids, limit, frequencies, normal)):
            return forward_with(self, x, position_ids, **kwargs)

    return forward


def _undecorated(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return what `dynamic_rope_update` was applied to, with gradients off as upstream has them."""
    import torch

    made: Any = method
    while "dynamic_frequency_update" not in made.__code__.co_freevars:
        made = made.__wrapped__
    without_gradients: Callable[..., Any] = torch.no_grad()(made.__wrapped__)
    return without_gradients


def _is_switched(rope_type: str, position_ids: Any) -> bool:
    from exportcompat.patches.toolkit.tracing import is_traced

    return any(name in rope_type for name in _SWITCHED) and is_traced(position_ids)


def _choose(rope_type: str, position_ids: Any, limit: int, frequencies: Callable[[Any], Any], normal: Any) -> Any:
    """Return the frequencies, `(head_dim // 2,)`, for the longest position of the call."""
    import torch

    length = torch.max(position_ids) + 1
    # longrope has one set for everything beyond the limit; dynamic NTK has one for each length.
    beyond = frequencies(limit + 1 if rope_type == "longrope" else length)
    return torch.where(length > limit, beyond, normal.to(position_ids.device))


def _limit_4(module: Any) -> int:
    config = module.config
    if module.rope_type != "longrope":
        return int(module.original_max_seq_len)
    return int(getattr(config, "original_max_position_embeddings", None) or config.max_position_embeddings)


def _init_4(module: Any, device: Any) -> Callable[[Any], Any]:
    return lambda length: module.rope_init_fn(module.config, device, seq_len=length)[0]


def _limit_5(module: Any, rope_type: str, layer_type: str | None) -> int:
    if rope_type != "longrope":
        return int(module.original_max_seq_len)
    parameters = module.config.rope_parameters
    return int((parameters if layer_type is None else parameters[layer_type])["original_max_position_embeddings"])


def _init_5(module: Any, rope_type: str, device: Any, layer_type: str | None) -> Callable[[Any], Any]:
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    init = ROPE_INIT_FUNCTIONS[rope_type]
    return lambda length: init(module.config, device, seq_len=length, layer_type=layer_type)[0]


@contextmanager
def _set(module: Any, name: str, value: Any) -> Iterator[None]:
    """Let a buffer or attribute have `value` for one call, without torch taking note of an assignment."""
    table = module._buffers if name in module._buffers else vars(module)
    before = table[name]
    table[name] = value
    try:
        yield
    finally:
        table[name] = before


_REASON = "Rotary frequencies are chosen by an if on the length: no graph, or one that keeps the sample's branch."
_NTK_REASON = "Dynamic NTK frequencies are chosen by an if on the length: no graph. longrope is mended upstream."
_SOURCE = "modeling_rope_utils.py"
_BOTH_BRANCHES = "exportcompat.patches.attention._rotary_both_branches:patch_rotary_forward"
_ISSUE = "https://github.com/pytorch/pytorch/issues/163791"
_DEFECT_4 = (r"\(self, position_ids, device\)", r"register_buffer\('inv_freq'")
_LAYERED = f"{__name__}:patch_layered_rope_forward"

SPECS = variants(
    {
        "id": "rotary-frequencies",
        "targets": (f"decorated({_ROPE}:dynamic_rope_update)",),
        "reason": _REASON,
        "proofs": ("phi3_longrope", "llama_dynamic"),
        "kind": "wrap",
    },
    {
        "transformers>=4.44,<4.51": {
            # Each model has a copy of the method; those of Phi3 to 4.47 have classes for longrope.
            "targets": (
                "methods_using(transformers:_dynamic_frequency_update)",
                "methods_using(transformers:ext_factors)",
            ),
            "replacement": _BOTH_BRANCHES,
            "upstream": (source("models/phi3/modeling_phi3.py", "v4.48.3"), _ISSUE),
        },
        "transformers>=4.51,<4.54": {
            "replacement": _BOTH_BRANCHES,
            "defect": _DEFECT_4,
            "upstream": (source(_SOURCE, "v4.53.3"), _ISSUE),
        },
        "transformers>=4.54,<5.0": {
            "replacement": f"{__name__}:patch_rope_forward",
            "defect": _DEFECT_4,
            "upstream": (source(_SOURCE, "v4.57.6"), _ISSUE),
        },
        "transformers>=5.0,<5.21": {
            "replacement": _LAYERED,
            "defect": (r"layer_type", r"if seq_len > original_max_position_embeddings"),
            "upstream": (source(_SOURCE, "v5.20.2"), _ISSUE),
        },
        "transformers>=5.21": {
            "replacement": _LAYERED,
            # Whoever sets frequencies behind such an if has the defect.
            "defect": (r"register_buffer\([^)]*inv_freq", r"\bif \w+ > [\w.]+"),
            "spreads": True,
            "reason": _NTK_REASON,
            "upstream": (source(_SOURCE, "v5.23.0"), _ISSUE),
            "proofs": ("llama_dynamic",),
        },
    },
)
