"""The exporter traces a whole program once more, where nothing in it has to be taken apart.

Symptom: a third of the time of an export goes into the decomposition, which for most decoders and encoders ends with
the nodes that it has begun with.
Cause: `run_decompositions` traces the program anew, twice, whatever is in it.
What is done: nodes that are taken apart are traced one by one, and the others stay, in the bodies of branches and loops
too. What is between the first and the last change of a tensor is traced at once, as something that changes nothing.
Casts, `reshape`, `contiguous` and dropout are written as tracing writes them.
Where an input or a buffer is changed, all is traced as before, and so is what somebody decomposes by another table.
The table of the exporter is known by its class, which `torch-onnx-missing-operators` gives it.
Can go: when torch looks whether there is something to do.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_run_decompositions(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep the decompositions from tracing a program of which they would change names alone."""
    from ._exporter_table import ExporterTable

    def run_decompositions(self: Any, decomp_table: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = _rewritten(self, decomp_table) if isinstance(decomp_table, ExporterTable) else None
        return original(self, decomp_table, *args, **kwargs) if found is None else found

    return run_decompositions


def _rewritten(program: Any, table: Any) -> Any:
    """Return the program without what the exporter has no function for; None where the whole has to be traced."""
    # Not before a program is there: it imports sympy, which takes longer than all else in entering a scope.
    from ._rewritten_program import rewritten

    return None if _is_reordered(program) else rewritten(program, table)


def _is_reordered(program: Any) -> bool:
    """Say whether tracing makes the results anew in another order: that of the fields of their class.

    Eager adds hidden states to an output that it has already made, behind all else.
    """
    from torch.utils import _pytree

    structure = program.call_spec.out_spec
    outputs = list(program.graph.output_node().args[0])
    results = [getattr(item, "meta", {}).get("val", item) for item in outputs[len(outputs) - structure.num_leaves :]]
    made = _pytree.tree_leaves(_pytree.tree_unflatten(results, structure))
    return any(found is not result for found, result in zip(made, results, strict=False))


SPECS = (
    PatchingSpec(
        id="torch-onnx-repeated-trace",
        targets=("torch.export.exported_program:ExportedProgram.run_decompositions",),
        replacement=f"{__name__}:patch_run_decompositions",
        requires=("torch>=2.13",),
        reason="The exporter traces each program once more: a third of an export, though nothing comes of it.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/exporter/_fx_passes.py",),
        proofs=(),
        kind="wrap",
    ),
)
