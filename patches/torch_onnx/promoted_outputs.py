"""A result in half precision comes out of the graph in float32, if the last operator computes in float32.

Symptom: the export of a model in float16 succeeds, and an output is float32: `x.sum(1)`, `amax`, `prod`, `cumsum` of a
pooler.
Cause: such an operator computes in float32, and its result is cast back, by two nodes that the pass for types inserts.
The outputs of the graph are found by the names of their nodes, and the name stays with the operator.
What is done: the cast that takes the place of an output takes its name too.
Can go: when the pass changes the names in the program's signature, or keeps them.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_insert_type_promotion_run(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make the pass that inserts casts give a cast that becomes an output the name of the node before it."""

    def _run(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _outputs(self.module)
        module = original(self, *args, **kwargs)
        for old, new in {old: new for old, new in zip(before, _outputs(module), strict=True) if old is not new}.items():
            old.name, new.name = new.name, old.name
        return module

    return _run


def _outputs(module: Any) -> list[Any]:
    """Return the nodes that a graph gives, in order."""
    from torch.fx import Node
    from torch.utils._pytree import tree_leaves

    output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
    return [leaf for leaf in tree_leaves(output.args) if isinstance(leaf, Node)]


SPECS = (
    PatchingSpec(
        id="torch-onnx-promoted-outputs",
        targets=("torch.onnx._internal.fx.passes.type_promotion:InsertTypePromotion._run",),
        replacement=f"{__name__}:patch_insert_type_promotion_run",
        requires=("torch>=2.6",),
        reason="An output in half precision that is computed in float32 is not cast back: another type than in eager.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/fx/passes/type_promotion.py",),
        proofs=("half_sum_gpt",),
        kind="wrap",
    ),
)
