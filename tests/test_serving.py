"""What is made faster of a graph, for which calls, and when it is not."""

from typing import Any

import pytest

from exportcompat import ExportCompatError
from exportcompat._serving import check_weights, find_target, make_lean
from exportcompat._serving._graph import Writer, replace
from exportcompat._serving._grouped_query import group_queries
from exportcompat._serving._growing_attention import grow_within
from exportcompat._serving._idle_reshapes import drop_idle_reshapes
from exportcompat._serving._last_logits import keep_last
from exportcompat._serving._mask_lookups import read_masks_directly
from exportcompat._serving._merged_heads import merge_heads
from exportcompat._serving._skip_norms import join_sums_with_norms
from exportcompat._serving._timing import Ratio, is_faster
from exportcompat._verification import Contract, contract_of


def test_a_contract_says_which_calls_it_admits() -> None:
    chunks = Contract(chunk_batch=1)
    assert [chunks.admits(3, 0, 5), chunks.admits(3, 5, 1), chunks.admits(1, 5, 3)] == [True] * 3
    assert not chunks.admits(2, 5, 3)
    assert chunks.admitted(3, (5, 1, 1)) == (5, 1, 1) and chunks.admitted(3, (6, 1, 5, 1)) == (6, 1)
    both = chunks.narrowed(Contract(last_logits=True)).narrowed(Contract(chunk_batch=4))
    assert both == Contract(chunk_batch=1, last_logits=True)
    assert contract_of(both.to_metadata()) == both != contract_of({}) == Contract()


def test_a_contract_without_padding_or_chunks_and_for_one_sequence() -> None:
    plain, single, steps = Contract(padding=False), Contract(batch=1), Contract(chunk_batch=0)
    assert plain.admits(3, 0, 5) and not plain.admits(1, 0, 5, padded=True)
    assert plain.admitted(3, (5, 1), padded=True) == () != plain.admitted(3, (5, 1))
    assert single.admits(1, 5, 3) and not single.admits(2, 0, 5) and not single.admits(2, 5, 1)
    assert steps.admitted(1, (40, 1, 3)) == (40, 1)
    both = plain.narrowed(single).narrowed(steps)
    assert both == Contract(chunk_batch=0, padding=False, batch=1)
    assert str(both) == (
        "first calls and single tokens: batch 1, no padding; chunks after a past: none; logits of every token"
    )
    # A file that says nothing of them was derived for calls of any batch, with padding.
    assert contract_of({"exportcompat.contract": '{"chunk_batch": 1, "last_logits": true}'}).padding


@pytest.mark.parametrize(
    ("ratios", "wanted"),
    [
        ((0.5, 1.0), True),
        ((0.99, 0.99), False),
        # Much faster in one workload does not make up for slower in another.
        ((0.3, 1.2), False),
        ((), False),
    ],
)
def test_what_counts_as_faster(ratios: tuple[float, ...], wanted: bool) -> None:
    assert is_faster([Ratio(64, 1, ratio) for ratio in ratios]) is wanted


def test_what_cannot_be_used_is_refused() -> None:
    runtime = pytest.importorskip("onnxruntime", reason="a target is one of its providers")
    with pytest.raises(ExportCompatError, match="'tpu' is not known; write one of cpu, cuda, webgpu"):
        find_target("tpu")
    if "CUDAExecutionProvider" not in runtime.get_available_providers():
        with pytest.raises(ExportCompatError, match="are compared where they run: onnxruntime has no CUDAExecution"):
            find_target("cuda")
    with pytest.raises(ExportCompatError, match="need WebGpuExecutionProvider, which has no way to be compared"):
        find_target("webgpu")
    assert find_target("cuda", unverified=True).name == "cuda"
    with pytest.raises(ExportCompatError, match="'int3' are not known; write one of int8, int4, int4-zero-points"):
        check_weights("int3")


def graph(text: str) -> Any:
    return pytest.importorskip("onnx_ir", reason="graphs are read with it").from_onnx_text(text)


def head(tail: str) -> Any:
    return graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, s, 4] states) => (float[b, s, 6] logits)
  <float[4, 6] weights = {{{", ".join(["1.0"] * 24)}}}, float cap = {{2.0}}, float[b, s, 6] scores, float[b, s, 6] low>
{{
  scores = MatMul(states, weights)
  {tail}
}}""")


def test_the_last_token_alone_is_multiplied_with_the_vocabulary() -> None:
    model = head("low = Div(scores, cap)\n  logits = Tanh(low)")
    assert keep_last(model) == 1
    assert [node.op_type for node in model.graph] == ["Gather", "MatMul", "Div", "Tanh"]
    assert str(model.graph.outputs[0].shape) == "[b,1,6]"


def test_weights_that_tokens_are_looked_up_in_make_logits_too() -> None:
    model = graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (int64[b, s] tokens) => (float[b, s, 6] logits)
  <float[6, 4] table = {{{", ".join(["1.0"] * 24)}}}, float[b, s, 4] states, float[4, 6] weights> {{
  states = Gather(table, tokens)
  weights = Transpose<perm = [1, 0]>(table)
  logits = MatMul(states, weights)
}}""")
    assert keep_last(model) == 1
    assert [node.op_type for node in model.graph] == ["Gather", "Transpose", "Gather", "MatMul"]


def test_logits_that_look_at_other_tokens_stay() -> None:
    assert keep_last(head("low = Softmax<axis = 1>(scores)\n  logits = Div(low, cap)")) == 0


def attention(past: str = "past_key", mask: str = "bool[b, 1, s, t] mask") -> Any:
    return graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, s, 32] q, float[b, s, 16] k, float[b, s, 16] v, {mask},
        float[b, 2, p, 8] past_key, float[b, 2, p, 8] past_value)
  => (float[b, s, 32] y, float[b, 2, t, 8] key, float[b, 2, t, 8] value)
  <int64[4] split = {{0, 0, -1, 8}}, int64[3] merge = {{0, 0, 32}}, float[b, s, 4, 8] q1, float[b, 4, s, 8] q2,
   float[b, s, 2, 8] k1, float[b, 2, s, 8] k2, float[b, s, 2, 8] v1, float[b, 2, s, 8] v2, float[b, 4, s, 8] a,
   float[b, s, 4, 8] a1>
{{
  q1 = Reshape(q, split)
  q2 = Transpose<perm = [0, 2, 1, 3]>(q1)
  k1 = Reshape(k, split)
  k2 = Transpose<perm = [0, 2, 1, 3]>(k1)
  v1 = Reshape(v, split)
  v2 = Transpose<perm = [0, 2, 1, 3]>(v1)
  key = Concat<axis = -2>({past}, k2)
  value = Concat<axis = -2>(past_value, v2)
  a = Attention(q2, key, value, mask)
  a1 = Transpose<perm = [0, 2, 1, 3]>(a)
  y = Reshape(a1, merge)
}}""")


def test_attention_on_a_growing_cache_becomes_one_operator() -> None:
    model = attention()
    assert group_queries(model) == 1
    operators = [node.op_type for node in model.graph]
    assert "GroupQueryAttention" in operators and not {"Transpose", "Concat", "Attention"} & set(operators)
    assert [value.name for value in model.graph.outputs] == ["y", "key", "value"]


def test_attention_grows_by_itself() -> None:
    model = attention()
    assert grow_within(model) == 1
    assert not [node for node in model.graph if node.op_type == "Concat"]
    (node,) = [node for node in model.graph if node.op_type == "Attention"]
    assert [value.name for value in node.inputs] == ["q2", "k2", "v2", "mask", "past_key", "past_value"]
    assert [value.name for value in model.graph.outputs] == ["y", "key", "value"]
    assert grow_within(attention(past="k2")) == 0


def test_blocks_of_a_sequence_attend_by_themselves() -> None:
    swapped = "float[c, 2, 4, 8]"
    model = graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, s, 16] q, float[b, s, 16] k, float[b, s, 16] v, float[c, 2, 4, 4] mask) => (float[b, s, 16] y)
  <int64[4] split = {{-1, 4, 2, 8}}, int64[3] merge = {{1, -1, 16}}, float[c, 4, 2, 8] q1, {swapped} q2,
   float[c, 4, 2, 8] k1, {swapped} k2, float[c, 4, 2, 8] v1, {swapped} v2, {swapped} a, float[c, 4, 2, 8] a1>
{{
  q1 = Reshape(q, split)
  q2 = Transpose<perm = [0, 2, 1, 3]>(q1)
  k1 = Reshape(k, split)
  k2 = Transpose<perm = [0, 2, 1, 3]>(k1)
  v1 = Reshape(v, split)
  v2 = Transpose<perm = [0, 2, 1, 3]>(v1)
  a = Attention(q2, k2, v2, mask)
  a1 = Transpose<perm = [0, 2, 1, 3]>(a)
  y = Reshape(a1, merge)
}}""")
    assert merge_heads(model) == 1
    (node,) = [node for node in model.graph if node.op_type == "Attention"]
    # Each block is a row of the batch: queries are cut into them, and results are put together again.
    assert [str(value.shape) for value in node.inputs[:3]] == ["[c,4,16]"] * 3
    assert str(node.outputs[0].shape) == "[c,4,16]" and str(model.graph.outputs[0].shape) == "[b,s,16]"
    assert not [node for node in model.graph if node.op_type == "Transpose"]


def test_attention_to_states_that_may_be_none_stays() -> None:
    """Whether an encoder's states are there or in the cache is found out in the call: then none are new."""
    model = graph("""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, 4, s, 8] q, float[b, 4, e, 8] k, float[b, 4, e, 8] v, bool[b, 1, s, t] mask,
        float[b, 4, p, 8] past_key, float[b, 4, p, 8] past_value)
  => (float[b, 4, s, 8] y, float[b, 4, t, 8] key, float[b, 4, t, 8] value) {
  key = Concat<axis = -2>(past_key, k)
  value = Concat<axis = -2>(past_value, v)
  y = Attention(q, key, value, mask)
}""")
    assert grow_within(model) == 0


def lookup(start: str = "0", columns: str = "t") -> Any:
    return graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (int64[b, t] mask, int64 rows, int64 columns) => (bool[b, 1, 1, t] padding, bool[b, 1, 1, 1] is_any)
  <int64 zero = {{{start}}}, int64 one = {{1}}, int64[1] last = {{-1}}, int64[3] row_axes = {{1, 2, 3}},
   int64[3] column_axes = {{0, 1, 2}}, int64[b] r, int64[{columns}] c, int64[b, 1, 1, 1] r4,
   int64[1, 1, 1, {columns}] c4,
   int64[b, 1, 1, t] table, bool[b, t] kept, int64[b, 1, 1, t] wide, int64[b, 1, 1, 1] most>
{{
  kept = Cast<to = 9>(mask)
  r = Range(zero, rows, one)
  r4 = Unsqueeze(r, row_axes)
  c = Range(zero, columns, one)
  c4 = Unsqueeze(c, column_axes)
  table = Max(r4, c4)
  shape = Shape(table)
  r5 = Expand(r4, shape)
  c5 = Expand(c4, shape)
  r6 = Unsqueeze(r5, last)
  c6 = Unsqueeze(c5, last)
  pairs = Concat<axis = -1>(r6, c6)
  padding = GatherND(kept, pairs)
  wide = Cast<to = 7>(padding)
  most = ReduceMax<keepdims = 1>(wide, last)
  is_any = Cast<to = 9>(most)
}}""")


def test_padding_is_read_as_it_is_and_truth_values_are_bytes() -> None:
    model = lookup()
    assert read_masks_directly(model) == 2
    assert [node.op_type for node in model.graph] == ["Cast", "Unsqueeze", "Cast", "ReduceMax", "Cast"]
    assert [node.attributes["to"].value for node in model.graph if node.op_type == "Cast"] == [9, 2, 9]
    assert [value.name for value in model.graph.outputs] == ["padding", "is_any"]


@pytest.mark.parametrize("table", [{"start": "1"}, {"columns": "s"}])
def test_a_lookup_of_other_places_stays(table: dict[str, str]) -> None:
    assert read_masks_directly(lookup(**table)) == 1


def test_a_reshape_that_changes_nothing_goes() -> None:
    model = graph("""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, s, 4] x, int64[3] shape, int64[2] other) => (float[b, s, 4] y, float[r, 4] z)
  <float[b, s, 4] same, float[r, 4] flat> {
  same = Reshape(x, shape)
  y = Tanh(same)
  flat = Reshape(x, other)
  z = Tanh(flat)
}""")
    assert drop_idle_reshapes(model) == 1
    assert [node.op_type for node in model.graph] == ["Tanh", "Reshape", "Tanh"]


def normed(axis: int = -1, shape: str = "b, s, 4") -> Any:
    return graph(f"""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, s, 4] x, float[{shape}] y) => (float[b, s, 4] z, float[b, s, 4] more)
  <float[4] weight = {{1, 1, 1, 1}}, float[b, s, 4] total, float[b, s, 4] norm> {{
  total = Add(x, y)
  norm = RMSNormalization<axis = {axis}, epsilon = 0.001>(total, weight)
  z = Tanh(norm)
  more = Add(total, y)
}}""")


def test_a_sum_and_its_norm_become_one_operator() -> None:
    model = normed()
    assert join_sums_with_norms(model) == 1
    assert [node.op_type for node in model.graph] == ["SkipSimplifiedLayerNormalization", "Tanh", "Add"]
    assert [join_sums_with_norms(item) for item in (normed(axis=1), normed(shape="1, 1, 4"))] == [0, 0]


@pytest.mark.parametrize("model", [{"past": "k2"}, {"mask": "bool[s, t] mask"}])
def test_other_attention_stays(model: dict[str, str]) -> None:
    assert group_queries(attention(**model)) == 0


def test_no_two_values_have_one_name_where_a_constant_of_a_loop_was_moved_out() -> None:
    ir = pytest.importorskip("onnx_ir", reason="the graph is one of onnx_ir")
    taken = ir.Value(name="x", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    moved = ir.Value(name="val_0", const_value=ir.tensor([1.0, 2.0], name="val_0"))
    added = ir.node("Add", [taken, moved])
    given = ir.node("Neg", added.outputs)
    added.outputs[0].name, given.outputs[0].name = "val_0", "y"
    graph = ir.Graph([taken], given.outputs, nodes=[added, given], initializers=[moved], opset_imports={"": 23})
    make_lean(ir.Model(graph, ir_version=10))
    names = [*graph.initializers, *(value.name for node in graph for value in node.outputs)]
    assert len(names) == len(set(names)) == 3 and names[-1] == "y"


def test_what_a_graph_returns_is_put_in_its_place_by_any_release_of_onnx_ir(monkeypatch: pytest.MonkeyPatch) -> None:
    ir = pytest.importorskip("onnx_ir", reason="the graph is one of onnx_ir")
    # To 0.1.11 a value has no such method, which torch 2.8 and before are used with.
    monkeypatch.delattr(ir.Value, "replace_all_uses_with", raising=False)
    model = graph("""<ir_version: 10, opset_import: ["" : 23]>
agraph (float[b, 4] x) => (float[b, 4] y, float[b, 4] z) {
  y = Neg(x)
  z = Tanh(y)
}""")
    old = model.graph[0].outputs[0]
    replace(old, Writer(model.graph, model.graph[1]).node("Abs", [model.graph.inputs[0]], old))
    assert [node.op_type for node in model.graph] == ["Neg", "Abs", "Tanh"]
    made = model.graph[1].outputs[0]
    assert (model.graph.outputs[0], model.graph[2].inputs[0]) == (made, made)
    assert (made.name, made.is_graph_output(), old.is_graph_output()) == ("y", True, False)
    assert (made.dtype, list(made.shape)) == (old.dtype, list(old.shape))


def test_a_graph_of_other_classes_stays_as_it_is() -> None:
    class Model:
        """As onnxscript before 0.3 has them, which is no package of onnx-ir."""

    assert make_lean(Model()) is False
