"""Patches for releases of torch that are older than the one installed: what they do, without an export."""

import builtins
import math
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the patches are for torch")
ir = pytest.importorskip("onnxscript", reason="a file is made with it").ir

from exportcompat.patches.toolkit.module_state import kept_through
from exportcompat.patches.torch_export.checked_elements import patch_decompose_exported_program
from exportcompat.patches.torch_export.frozen_copies import patch_functional_tensor_dispatch
from exportcompat.patches.torch_export.new_attributes import patch_detect_attribute_assignment
from exportcompat.patches.torch_export.size_extremes import patch_graph_capture
from exportcompat.patches.torch_onnx._older_sizes import patch_get_decomps as patch_get_decomps_older
from exportcompat.patches.torch_onnx.batch_norm import patch_construct_node
from exportcompat.patches.torch_onnx.cast_overload import patch_op_trace_dispatch
from exportcompat.patches.torch_onnx.open_slices import patch_translate_fx_graph
from exportcompat.patches.torch_onnx.redundant_slices import patch_init
from exportcompat.patches.torch_onnx.shared_outputs import patch_rename_outputs
from exportcompat.patches.torch_onnx.symbolic_operators import patch_get_decomps


def rename(model: Any, names: Sequence[str]) -> None:
    """Rename outputs, as torch does to 2.10."""
    for output, name in zip(model.graph.outputs, names, strict=True):
        output.name = name


def test_outputs_that_are_inputs_or_twice_there_get_values_of_their_own() -> None:
    mask = ir.Value(name="mask", shape=ir.Shape(["batch"]), type=ir.TensorType(ir.DataType.BOOL))
    node = ir.Node("", "Not", [mask])
    graph = ir.Graph([mask], [node.outputs[0], mask, node.outputs[0]], nodes=[node], opset_imports={"": 18})
    patch_rename_outputs(rename)(ir.Model(graph, ir_version=10), ["a", "b", "c"])
    assert [value.name for value in graph.inputs] == ["mask"]
    assert [value.name for value in graph.outputs] == ["a", "b", "c"]
    assert (graph.outputs[1].shape, graph.outputs[1].dtype) == (mask.shape, mask.dtype)
    assert [node.op_type for node in graph] == ["Not", "Identity", "Identity"]


@pytest.mark.parametrize(("dtype", "is_frozen"), [(torch.float64, False), (torch.float32, True), (None, True)])
def test_a_copy_of_another_dtype_is_not_frozen(dtype: Any, is_frozen: bool) -> None:
    mode = SimpleNamespace(export=True)

    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> bool:
        return bool(self.export)

    options = {} if dtype is None else {"dtype": dtype}
    copy = torch.ops.aten._to_copy.default
    assert (
        patch_functional_tensor_dispatch(dispatch)(mode, copy, (), (torch.ones(1, dtype=torch.float32),), options)
        is is_frozen
    )
    assert mode.export


@contextmanager
def same_names(mod: Any) -> Iterator[None]:
    """Refuse other attributes than before, as torch does to 2.9."""
    before = dict(vars(mod))
    yield
    assert vars(mod) == before


def test_what_forward_stores_is_given_back_before_torch_looks() -> None:
    model = SimpleNamespace(layer=1, kept=TENSOR)
    detect = patch_detect_attribute_assignment(same_names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with detect(model):
            model.layer, model.strategy = 2, "full"
    assert vars(model) == {"layer": 1, "kept": TENSOR}
    with (
        pytest.warns(UserWarning, match="stores tensors on the model, which a graph does not: kept, new"),
        detect(model),
    ):
        model.kept = model.new = TENSOR + 1
    assert vars(model) == {"layer": 1, "kept": TENSOR}
    with suppress(KeyError), detect(model):
        model.layer = 3
        raise KeyError
    assert vars(model) == {"layer": 1, "kept": TENSOR}


def test_what_forward_stores_stays_for_the_next_try() -> None:
    model = SimpleNamespace(layer=1)
    detect = patch_detect_attribute_assignment(same_names)
    with kept_through(), suppress(KeyError), detect(model):
        model.is_hooked = True
        raise KeyError
    assert vars(model) == {"layer": 1, "is_hooked": True}


def test_bounds_that_are_left_out_are_written() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    for bounds in ((), (1,), (2, None, -1), (0, 1, None, 2)):
        graph.call_function(torch.ops.aten.slice_scatter.default, (x, y, *bounds))
    translate = patch_translate_fx_graph(lambda graph: [node.args[2:] for node in graph.nodes if len(node.args) > 1])
    end = sys.maxsize
    assert translate(graph) == [(0, 0, end, 1), (1, 0, end, 1), (2, 0, -1, 1), (0, 1, end, 2)]


def _same_shape(op: Any, data: Any, slice_output: Any, **_: Any) -> bool:
    """Say what the rule of onnxscript 0.3.2 to 0.5.2 asks: two sizes that are not known are equal."""
    return bool(data.shape == slice_output.shape)


_potential_redundant_slice = _identity_to_itself = None
"""What the rule is made of beside its condition, in the module of that."""


@dataclass
class Rule:
    """Has what a rule of onnxscript is made with."""

    pattern: Any
    replacement: Any
    _condition_function: Any


@pytest.mark.parametrize(("sizes", "is_dropped"), [((None, 3), False), (("n", 3), True), ((2, 3), True)])
def test_a_slice_is_dropped_if_its_sizes_are_known(sizes: tuple[Any, ...], is_dropped: bool) -> None:
    held: list[Rule] = []
    other = Rule(None, None, rename)
    patch_init(lambda self, rules: held.extend(rules))(None, [Rule(None, None, _same_shape), other])
    assert held[1] is other
    x, cut = (SimpleNamespace(shape=ir.Shape(sizes)) for _ in range(2))
    assert _same_shape(None, x, cut)
    assert held[0]._condition_function(None, x, cut) is is_dropped


TENSOR = torch.ones(1, dtype=torch.float32)
SAME: dict[str, Any] = {"dtype": torch.float32, "layout": torch.strided, "device": torch.device("cpu")}


@pytest.mark.parametrize(
    ("name", "args", "options", "is_itself"),
    [
        ("dtype", (torch.float32,), {}, True),
        ("dtype", (torch.float64,), {}, False),
        ("dtype", (torch.float32, False, True), {}, False),
        ("dtype", (torch.float32, False, False, torch.contiguous_format), {}, False),
        ("dtype_layout", (), SAME, True),
        ("dtype_layout", (), {"device": torch.device("cpu")}, True),
        ("dtype_layout", (), SAME | {"dtype": torch.float16}, False),
        ("dtype_layout", (), SAME | {"device": torch.device("meta")}, False),
        ("dtype_layout", (), SAME | {"copy": True}, False),
    ],
)
def test_what_is_converted_to_what_it_is_stays_itself(
    name: str, args: tuple[Any, ...], options: dict[str, Any], is_itself: bool
) -> None:
    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs).clone()

    func = getattr(torch.ops.aten.to, name)
    result = patch_functional_tensor_dispatch(dispatch)(
        SimpleNamespace(export=True), func, (), (TENSOR, *args), options
    )
    assert (result is TENSOR) is is_itself


def a_check(comparison: Any, number: int) -> Any:
    """Return a program's graph, as torch 2.7 makes it, that compares a truth with a number."""
    from torch.fx.experimental.symbolic_shapes import cast_symbool_to_symint_guardless as cast

    graph = torch.fx.Graph()
    truth = graph.call_function(torch.ops.aten.item.default, (graph.placeholder("mask"),))
    compared = graph.call_function(comparison, (graph.call_function(cast, (truth,)), number))
    graph.call_function(torch.ops.aten._assert_scalar.default, (compared, "no"))
    graph.output(())
    return torch.fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize(
    ("comparison", "number", "left"),
    [
        (operator.eq, 1, ["item", "_assert_scalar"]),
        (operator.eq, 0, ["item", "cast_symbool_to_symint_guardless", "eq", "_assert_scalar"]),
        (operator.ge, 1, ["item", "cast_symbool_to_symint_guardless", "ge", "_assert_scalar"]),
    ],
)
def test_a_program_asks_for_truths_before_and_behind_its_decomposition(
    comparison: Any, number: int, left: list[str]
) -> None:
    def names(module: Any) -> list[str]:
        nodes = [node.target for node in module.graph.nodes if node.op == "call_function"]
        return [getattr(target, "_overloadpacket", target).__name__ for target in nodes]

    seen: list[list[str]] = []

    def decompose(program: Any) -> Any:
        seen.append(names(program.graph_module))
        return SimpleNamespace(graph_module=a_check(comparison, number))

    result = patch_decompose_exported_program(decompose)(SimpleNamespace(graph_module=a_check(comparison, number)))
    assert [*seen, names(result.graph_module)] == [left, left]


@dataclass
class Signature:
    """What torch knows of an operator of ONNX."""

    domain: str
    name: str
    outputs: tuple[str, ...] = ("output", "mean", "variance")


@pytest.mark.parametrize(
    ("signature", "attributes", "count"),
    [
        (Signature("", "BatchNormalization"), {}, 1),
        (Signature("", "BatchNormalization"), {"training_mode": 0}, 1),
        (Signature("", "BatchNormalization"), {"training_mode": 1}, 3),
        (Signature("own", "BatchNormalization"), {}, 3),
        (Signature("", "LayerNormalization"), {}, 3),
    ],
)
def test_batch_normalization_has_one_output_outside_of_training(
    signature: Signature, attributes: dict[str, int], count: int
) -> None:
    make = patch_construct_node(lambda signature, *_: len(signature.outputs))
    assert (make(signature, {}, attributes, None), len(signature.outputs)) == (count, 3)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the table of torch to 2.7 of what asks the sample."""
    table: dict[str, Any] = {"sym_min": min}
    monkeypatch.setattr("torch.fx.experimental.sym_node.alternate_impl_if_hinted_methods", table, raising=False)
    return table


def a_size() -> Any:
    """Return a size of which nothing is known."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return ShapeEnv().create_unbacked_symint()


@pytest.mark.parametrize("extreme", ["min", "max"])
def test_an_extreme_of_sizes_stays_one_while_a_model_is_exported(asking: dict[str, Any], extreme: str) -> None:
    size, seen = a_size(), list[Any]()

    def export() -> None:
        function = getattr(builtins, extreme)
        seen.extend(
            [function(8, size), function([size, 3, 5]), function(3, 5), function("b", "a"), function([], default=7)]
        )
        seen.append(dict(asking))

    patch_graph_capture(export)()
    assert [str(item.node.expr).startswith(extreme.title()) for item in seen[:2]] == [True, True]
    assert seen[2:] == [*({"min": (3, "a"), "max": (5, "b")}[extreme]), 7, {}]


def test_extremes_are_put_back_when_the_last_export_ends(asking: dict[str, Any]) -> None:
    found: Callable[..., Any] = builtins.min

    def fail() -> None:
        patch_graph_capture(lambda: None)()
        assert builtins.min is not found
        raise ValueError

    with pytest.raises(ValueError, match="^$"):
        patch_graph_capture(fail)()
    assert (builtins.min, list(asking)) == (found, ["sym_min"])


def test_operators_on_sizes_have_functions_where_torch_has_none() -> None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    def of_torch(self: Any, target: Any) -> Any:
        return self.functions.get(target, [])

    registry, found = ONNXRegistry(), patch_get_decomps(of_torch)
    for operator_ in (torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not):
        assert [item.fx_target for item in found(registry, operator_)] == [operator_]
        assert len(found(registry, operator_)) == 1
    assert found(registry, torch.sin) == []
    assert found(registry, math.trunc) == []


def test_before_torch_2_9_a_size_has_a_root_and_a_whole_part_as_well() -> None:
    registered: dict[Any, list[str]] = {torch.sym_float: ["known"]}
    registry = SimpleNamespace(register_op=lambda target, function: registered.update({target: [function.__name__]}))
    found = patch_get_decomps_older(lambda self, target: registered.get(target, []))
    assert found(registry, torch.sym_float) == ["known"]
    assert found(registry, math.trunc) == ["_whole_part"]
    assert found(registry, torch._sym_sqrt) == ["_root"]
    assert found(registry, torch.sym_max) == ["_larger"]
    assert found(registry, torch.sin) == []


def test_a_question_about_a_tensor_is_answered_and_no_operator() -> None:
    seen = list[Any]()

    def note(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(func)
        return func(*args, **kwargs)

    value = torch.ones(2)
    dispatch = patch_op_trace_dispatch(note)
    assert dispatch(None, torch.ops.prim.device.default, (), (value,)) == value.device
    assert dispatch(None, torch.ops.aten.add.Tensor, (), (value, 1), {"alpha": 2}).tolist() == [3.0, 3.0]
    assert seen == [torch.ops.aten.add.Tensor]
