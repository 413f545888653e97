"""onnxscript's optimizer takes time that grows with the square of the layers.

Symptom: the optimizer takes 1 s of an export of Llama with 4 layers, and 45 s with 32.
Cause: for a pattern with several output nodes, of which the rule `SlicesSplit` is the only one among the default rules,
the matcher lists all nodes of the graph by their operator, and then tries every pair. It does so for each node of the
graph, before it asks whether the node can be the first of the pattern at all.
What is done: the first node of the pattern is matched first. Where it does not match, no combination can, and the
graph is not looked at.
The file is the same to the byte (Llama with 4, 8 and 16 layers, onnxscript 0.7.2).
Can go: when `SimplePatternMatcher.match` of onnxscript does so itself. Every release from 0.3.0 to 0.7.2 has it so.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_match(original: Callable[..., Any]) -> Callable[..., Any]:
    """Match the first output node of a pattern before all combinations of the others."""

    def match(
        self: Any,
        model: Any,
        graph_or_function: Any,
        node: Any,
        *,
        verbose: int = 0,
        remove_nodes: bool = True,
        tracer: Any = None,
    ) -> Any:
        if not self.pattern.has_single_output_node:
            # Nodes of the body of a function or of a branch belong to the graph in it.
            self._graph = getattr(graph_or_function, "graph", graph_or_function)
            self._init_match(verbose)
            if not self._match_node(self.pattern.output_nodes[0], node):
                return self._match
        return original(self, model, graph_or_function, node, verbose=verbose, remove_nodes=remove_nodes, tracer=tracer)

    return match


SPECS = (
    PatchingSpec(
        id="torch-onnx-multiple-outputs",
        targets=("onnxscript.rewriter._matcher:SimplePatternMatcher.match",),
        replacement=f"{__name__}:patch_match",
        requires=("torch>=2.6", "onnxscript>=0.3"),
        reason="The optimizer goes through the whole graph for each of its nodes: minutes for a model of 32 layers.",
        upstream=("https://github.com/microsoft/onnxscript/blob/main/onnxscript/rewriter/_matcher.py",),
        proofs=(),
        kind="wrap",
    ),
)
