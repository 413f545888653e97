"""onnxscript's matcher asks whether a node can be the first of a pattern before it looks at the graph."""

from typing import Any

import pytest

from exportcompat.patches.torch_onnx.multiple_outputs import patch_match

onnx = pytest.importorskip("onnx")
ir = pytest.importorskip("onnx_ir")
matcher = pytest.importorskip("onnxscript.rewriter._matcher").SimplePatternMatcher
rewriter = pytest.importorskip("onnxscript.rewriter")

HALVES = ["rest = Slice(x, four, eight, last)", "first = Slice(x, zero, four, last)"]
"""The second half comes first, which is the order in which the two become one `Split`."""


def model(order: int, relus: int) -> Any:
    """Return a model that cuts its input into halves, in one order or the other, after a chain of `Relu`."""
    cuts = "\n  ".join(HALVES[:: 1 - 2 * order])
    chain = "\n  ".join(f"r{index} = Relu(r{index - 1})" if index else "r0 = Relu(y)" for index in range(relus))
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
agraph (float[2, 8] x, float[2] y) => (float[2, 4] first, float[2, 4] rest, float[2] r{relus - 1})
  <int64[1] zero = {{0}}, int64[1] four = {{4}}, int64[1] eight = {{8}}, int64[1] last = {{1}}>
{{
  {chain}
  {cuts}
}}"""
    return ir.from_onnx_text(text)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the operators of the nodes for which the whole graph was looked at."""
    found: list[str] = []
    original = matcher.match

    def noted(self: Any, model: Any, graph: Any, node: Any, **kwargs: Any) -> Any:
        if not self.pattern.has_single_output_node:
            found.append(node.op_type)
        return original(self, model, graph, node, **kwargs)

    monkeypatch.setattr(matcher, "match", noted)
    return found


@pytest.mark.parametrize(("order", "operators"), [(0, ["Split"]), (1, ["Slice", "Slice"])])
def test_the_same_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, looked_at: list[str], order: int, operators: list[str]
) -> None:
    before = rewriter.rewrite(model(order, 6))
    assert looked_at.count("Relu") == 6
    looked_at.clear()
    monkeypatch.setattr(matcher, "match", patch_match(matcher.match))
    after = rewriter.rewrite(model(order, 6))
    assert set(looked_at) == {"Slice"}
    assert [node.op_type for node in after.graph if node.op_type != "Relu"] == operators
    assert ir.to_proto(after).SerializeToString() == ir.to_proto(before).SerializeToString()
