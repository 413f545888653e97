"""What a result rests on by content: which programs are the same, and what stops a result from being carried."""

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="programs are captured")
pytest.importorskip("onnxruntime", reason="a case is exported and run")

import torch

from exportcompat import apply_patches
from exportcompat._verification import OnnxDecoder
from exportcompat.matrix.cases import CASES, Case
from exportcompat.matrix.checks import _content, captured, check, check_with_content, has_content
from exportcompat.matrix.checks._program_digest import program_digest
from exportcompat.matrix.checks._reference import StandIn, reference_digest

GPT = CASES["tiny_gpt"]
ROWS = torch.export.Dim("rows", min=2, max=64)


class Model(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    """Computes what it is made with, beside a weight, a constant and a branch."""

    def __init__(self, function: Callable[..., Any], *, weight: float = 1.0, constant: float = 1.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), weight))
        self.register_buffer("unread", torch.zeros(2), persistent=False)
        self.constant = torch.full((3,), constant)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def usual(model: Any, x: Any) -> Any:
    return (x * model.weight + model.constant).relu()


def renamed(model: Any, values: Any) -> Any:
    # Another line, and other names.
    product = values * model.weight
    return torch.relu(product + model.constant) if False else (product + model.constant).relu()


def other(model: Any, x: Any) -> Any:
    return (x * model.weight + model.constant).sigmoid()


def with_number(model: Any, x: Any) -> Any:
    return (x * model.weight + model.constant + 2.0).relu()


def branching(second: Callable[[Any], Any]) -> Callable[..., Any]:
    def function(model: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, second, (x * model.weight,))

    return function


def exported(model: Any, rows: Any = ROWS) -> Any:
    return torch.export.export(model.eval(), (torch.ones(4, 3),), dynamic_shapes=({0: rows},), strict=False)


def digest(model: Any, rows: Any = ROWS) -> str:
    return program_digest(exported(model, rows))


def asserting() -> Any:
    """Return a program that asserts something of a size, which is computed for that alone."""
    program = exported(Model(usual))
    graph = program.graph_module.graph
    tensor = next(node for node in graph.nodes if node.op == "placeholder" and node.users and node.name == "x")
    with graph.inserting_before(list(graph.nodes)[-1]):
        size = graph.call_function(torch.ops.aten.sym_size.int, (tensor, 0))
        size.meta["val"] = tensor.meta["val"].shape[0]
        is_two = graph.call_function(operator.ge, (size, 2))
        is_two.meta["val"] = True
        graph.call_function(torch.ops.aten._assert_scalar.default, (is_two, "two at least"))
    return program


def test_names_lines_assertions_and_what_nobody_reads_make_no_other_program() -> None:
    wanted, more = digest(Model(usual)), Model(usual)
    more.unread = torch.ones(5)
    assert digest(Model(renamed)) == program_digest(asserting()) == digest(more) == wanted


def test_a_program_that_computes_something_else_is_another() -> None:
    found = [
        digest(Model(usual)),
        digest(Model(other)),
        digest(Model(with_number)),
        digest(Model(usual, weight=2.0)),
        digest(Model(usual, constant=2.0)),
        digest(Model(usual), torch.export.Dim("rows", min=2, max=32)),
        digest(Model(usual), None),
        digest(Model(branching(lambda y: y - 1))),
        digest(Model(branching(lambda y: y - 2))),
    ]
    assert len(set(found)) == len(found)


def altered(change: Callable[[Any], None]) -> Case:
    """Return a case whose model is changed, as by another release."""

    def make() -> Any:
        decoder = GPT.make()
        change(decoder.model)
        return decoder

    return replace(GPT, make=make)  # type: ignore[arg-type]


def head(model: Any) -> Any:
    return [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]


def in_eager_alone(model: Any) -> None:
    # An export computes with tensors of classes of its own.
    head(model).register_forward_hook(lambda _, __, found: found * 1.001 if type(found) is torch.Tensor else found)


def in_the_program(model: Any) -> None:
    head(model).register_forward_hook(lambda _, __, found: found * 1.0)


def in_a_weight(model: Any) -> None:
    with torch.no_grad():
        head(model).weight *= 1.001


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """Return what is captured of the tiny GPT."""
    return dict(captured(GPT))


def test_captures_alone_say_what_a_run_says(content: dict[str, Any]) -> None:
    row = check_with_content(GPT)
    assert row["content"] == content["content"]
    assert row["state"] in ("native", "patched") and row["calls"] > 100
    assert [row[name] for name in ("applied", "modules", "caches")] == [
        content[name] for name in ("applied", "modules", "caches")
    ]
    assert content["patched"] == {"state": "works", "problems": []}


@pytest.mark.parametrize(
    ("change", "parts"),
    [(in_eager_alone, {"eager"}), (in_the_program, {"program"}), (in_a_weight, {"program", "eager"})],
    ids=["function", "program", "constant"],
)
def test_a_changed_release_has_another_content(
    content: dict[str, Any], change: Callable[[Any], None], parts: set[str]
) -> None:
    found = captured(altered(change))["content"]
    assert {name for name, text in found.items() if text != content["content"][name]} == parts


def test_what_a_capture_leaves_on_the_model_is_captured_twice(
    content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        asked.append(kwargs.get("again", True))
        return check(*args, **kwargs)

    # What patches cover is given back at the end of their scope, so no change of a model is at hand.
    marks = iter(range(100))
    monkeypatch.setattr(_content, "_attributes", lambda _: {"": next(marks)})
    monkeypatch.setattr(_content, "check", noted)
    assert captured(GPT)["content"] == content["content"]
    assert asked[-2:] == [False, True]


def test_cases_that_go_another_way_have_no_content() -> None:
    names = ("llama_export", "llama_script", "llama_program", "qwen2_5_vl_generate", "qwen2_vl_short")
    assert not any(has_content(CASES[name]) for name in names if name in CASES)
    assert has_content(CASES["llama"]) and has_content(CASES["bert"]) and has_content(CASES["llava"])
    for name in ("compare_generated", "compare_refusals"):
        assert not any(has_content(case) for case in CASES.values() if name in str(case.compare))


@pytest.mark.parametrize("name", ["clip", "bert", "llava", "llama"])
def test_each_kind_of_comparison_says_what_eager_answers(name: str) -> None:
    pytest.importorskip("transformers", reason="the cases are models of it")
    assert reference_digest(CASES[name]) == reference_digest(CASES[name]) != ""


def test_what_stands_for_a_file_has_a_cache_of_the_type_that_it_takes() -> None:
    pytest.importorskip("transformers", reason="the case is a model of it")
    subject = CASES["llama"].decoder()
    subject.model.half()
    with apply_patches():
        file, tokens = OnnxDecoder(StandIn(subject)), torch.ones(1, 3, dtype=torch.int64)
    _, cache = file(dict.fromkeys(file.inputs, tokens), file.empty_cache(1))
    assert cache and {tensor.dtype for tensor in cache.values()} == {torch.float16}


def test_a_model_that_is_not_there_has_no_content() -> None:
    assert captured(replace(GPT, exists=lambda: False)) == {}
