"""A table of sines of positions is made longer by a Python `if`, and a graph keeps that of the sample.

Symptom: a file stops beyond `max_position_embeddings` ("indices element out of data bounds"), where eager makes the
table longer: Speech2Text, M2M100, NLLB-MoE, XGLM, Kosmos-2, SeamlessM4T, SpeechT5, Musicgen, FSMT, TrOCR.
Cause: `if max_pos > self.weights.size(0): self.make_weights(...)`. The graph has the table, and not the `if`.
What is done: while it is traced, the table is one that has every row. Those beyond the table that there is are computed
by the class's own `get_embedding`, for the positions of the call alone, so that a step costs what its tokens cost.
Can go: when transformers computes the rows of a call from its positions.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.patches.toolkit.wrapping import when_traced
from exportcompat.registry import Unchanged


def patch_forward(original: Callable[..., Any]) -> Callable[..., Any] | Unchanged:
    """Make `forward(ids, ...)` of a table of positions find every row; leave other methods as they are."""
    if original.__name__ != "forward":
        return Unchanged("it is not the `forward` that looks rows up")

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        from ._table_rows import EndlessTable

        names = [name for name in ("weights", "weight") if isinstance(getattr(self, name, None), torch.Tensor)]
        if not names or torch.compiler.is_dynamo_compiling():
            return original(self, *args, **kwargs)
        name, before = names[0], dict(self.__dict__)
        # A module looks for its own attributes first, and for buffers and parameters after them.
        self.__dict__[name] = EndlessTable(self, getattr(self, name))
        try:
            return original(self, *args, **kwargs)
        finally:
            self.__dict__.pop(name)
            self.__dict__.update({name: before[name]} if name in before else {})

    return when_traced(original, forward)


SPECS = variants(
    {
        "id": "position-table-length",
        "targets": tuple(
            f"methods_using(transformers:{name})" for name in ("make_weights", "make_weight", "get_embedding")
        ),
        "replacement": f"{__name__}:patch_forward",
        "reason": "A table of positions is as long as the sample needs: no result beyond it, where eager lengthens it.",
        "upstream": (source("models/m2m_100/modeling_m2m_100.py", "v5.24.0"),),
        "proofs": ("m2m_100_decoder",),
        "kind": "wrap",
    },
    {"transformers>=4.51": {}},
)
