"""Every case works from one graph: at shapes that the export did not see, and the model is as it was afterwards."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from torch import nn

from exportcompat import apply_patches
from exportcompat._verification._onnx_decoder import OnnxDecoder, input_names, output_names
from exportcompat.matrix.cases import CASES, Sample, call, find_case, parse_proof
from exportcompat.matrix.cases.causal_lm import ON_THE_WHOLE_WAY
from exportcompat.matrix.cases.multimodal import IMAGE_BY_IMAGE
from exportcompat.matrix.checks._check import Outcome, captures, check, export
from exportcompat.matrix.models.tiny_gpt import TinyGPT
from exportcompat.matrix.runs._own_proofs import is_older, own_proofs
from exportcompat.matrix.store import WORKS, Installed, Results, results_here

# Beyond the windows and the rope limits of the cases: the other branch is then the one that was not traced.
BEYOND = Sample(batch=2, past=40, new=3)
SMALLEST = Sample(batch=1, past=5, new=1)
OTHERS = (Sample(batch=2, past=0, new=4),)
TRACED = [("phi3_longrope", sample) for sample in (BEYOND, SMALLEST, *(() if is_older() else OTHERS))]
TRACED += [] if is_older() else [("gemma2_window", BEYOND)]


def assert_works(outcome: Outcome, calls: int) -> None:
    assert (outcome.state, outcome.problems) == ("works", [])
    assert outcome.calls == calls


EAGER_MODELS = ("mistral_window_eager",)
"""The implementation `eager` differs in its masks alone, so one model stands for all; the matrix has the others."""

CALLS = {
    **{name: 38 for name, case in CASES.items() if case.compare == call("_conversations:compare_media")},
    # Half of the calls have padding.
    **{name: 94 for name, case in CASES.items() if case.compare == call("_comparisons:compare_unpadded")},
    # Four calls more, of which two are longer than the fixed chunk of these layers.
    **{name: 192 for name, case in CASES.items() if case.compare == call("_comparisons:compare_beyond")},
    # Those with images.
    **{name: 4 for name in CASES if name.endswith("_refused")},
    # What `generate` has called, beside the usual ones.
    "qwen2_5_vl_generate": 194,
    # Those that were observed, and for a model without a cache others that were not, beside its own five.
    "llava_export": 191,
    "llama_embedding_export": 10,
    **dict.fromkeys((f"{name}_export" for name in (*ON_THE_WHOLE_WAY, *IMAGE_BY_IMAGE, "video_llama_3")), 191),
    **{name: 191 for name in CASES if name.endswith(("_bfloat16", "_cache"))},
    # It has no interface of a decoder: those that were observed, and two of other sizes.
    "xlnet_export": 5,
}
"""How many calls are compared, where the calls are a model's own."""

SHOWN = [name for name, case in CASES.items() if case.shown and name != "llama_official"]
"""The cases of the quickstart."""

RESULTS = Path(__file__).parents[2] / "matrix" / "results"

SLOW = ("falcon_h1_chunks",)
"""Cases whose proofs take too long here: without its spec torch unrolls every chunk."""

PROVING = {parse_proof(proof)[0].name for _, proof in own_proofs()} - {*SHOWN, "llama_official"}
PROVING |= {name for name in SLOW if CASES[name].exists()}
# One stands for the kind; the others take as long each, and the matrix has them.
PROVING -= {f"{name}_export" for name in IMAGE_BY_IMAGE if name != "cosmos3_edge"}
"""The other cases that prove a spec here; the matrix has all, and captures each twice."""


def existing(name: str) -> Any:
    """Mark a case whose model the installed transformers does not have."""
    return pytest.param(name, marks=pytest.mark.skipif(not CASES[name].exists(), reason="no such model here"))


@pytest.mark.parametrize("name", [existing(name) for name in (*SHOWN, *EAGER_MODELS)])
def test_works_and_is_captured_the_same_twice(name: str) -> None:
    # On the older release once is enough: what is captured twice is the business of torch.
    assert_works(check(find_case(name), Sample(), again=not is_older()), calls=188)


@lru_cache(maxsize=1)
def results() -> tuple[Results, Installed]:
    """Return what the matrix has found on the installed versions, and what is installed."""
    return results_here(RESULTS)


@pytest.mark.parametrize("name", [name for name in CASES if name in PROVING])
def test_works(name: str) -> None:
    case, (found, here) = find_case(name), results()
    if found.is_current(case, here) and found.rows[name]["state"] in WORKS:
        pytest.skip(f"it works by {found.path.name}: found with these versions and by this code, as its key says")
    calls = CALLS.get(name) or len(getattr(case.decoder(), "shapes", ())) or 188
    assert_works(check(case, Sample(), again=False), calls)


def scaled(original: Any) -> Any:
    def forward(*args: Any) -> Any:
        logits, cache = original(*args)
        return logits * 2, cache

    return forward


def refusing(original: Any) -> Any:
    def forward(*args: Any) -> Any:
        raise ValueError("no")

    return forward


@pytest.mark.parametrize(
    ("change", "problem"),
    [(scaled, "a second export captures another graph"), (refusing, "a second export fails: TorchExportError: ")],
)
def test_a_second_export_that_differs_is_a_problem(change: Any, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []

    @contextmanager
    def around() -> Iterator[None]:
        entered.append(True)
        with monkeypatch.context() as patch:
            if len(entered) > 1:
                patch.setattr(TinyGPT, "forward_cached", change(TinyGPT.forward_cached))
            yield

    outcome = check(dataclasses.replace(find_case("tiny_gpt"), around=around), Sample())
    assert outcome.state == "wrong"
    assert outcome.problems[0].startswith(problem)


class Table(nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, *, used: bool) -> None:
        super().__init__()
        self.used = used
        self.register_buffer("table", torch.ones(3))

    def forward(self, rows: Any) -> Any:
        return rows + self.table.sum() if self.used else rows + 1


@pytest.mark.parametrize("used", [False, True])
def test_a_table_may_grow_between_two_captures_where_no_graph_reads_it(used: bool) -> None:
    table = Table(used=used)
    with captures() as texts:
        for length in (3, 5):
            table.table = torch.ones(length)
            torch.export.export(table, (torch.ones(2),))
    assert (texts[0] != texts[1]) is used


@pytest.mark.parametrize(("name", "sample"), TRACED, ids=str)
def test_works_whatever_was_traced(name: str, sample: Sample) -> None:
    assert_works(check(find_case(name), sample, again=False), calls=188)


@pytest.mark.parametrize("name", ["llama", "llama_official"])
def test_prefill_without_a_cache_works(name: str) -> None:
    assert_works(check(find_case(name), Sample(2, None, 4)), calls=16)


def test_names_and_axes_are_those_of_a_decoder(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the names are read from the file")
    path = tmp_path / "model.onnx"
    decoder = find_case("llama").decoder()
    with apply_patches():
        export(decoder, Sample(), path)
    graph = onnx.load(str(path)).graph
    assert [item.name for item in graph.input] == input_names(2)
    assert [item.name for item in graph.output] == output_names(2)
    assert axes(graph.input[0]) == ["batch", "sequence"]
    assert axes(graph.input[1]) == ["batch", "total_sequence"]
    assert axes(graph.input[3]) == ["batch", 2, "past_sequence", 8]
    assert OnnxDecoder(path).takes_past


def axes(value: Any) -> list[str | int]:
    return [item.dim_param or item.dim_value for item in value.type.tensor_type.shape.dim]


def test_model_argument_narrows_and_still_works(tmp_path: Path) -> None:
    decoder = find_case("llama_dynamic").decoder()
    with apply_patches(decoder.model) as report:
        export(decoder, Sample(), tmp_path / "model.onnx")
    rotary = [use.target for use in report.applied["rotary-frequencies"]]
    assert rotary == ["transformers.models.llama.modeling_llama:LlamaRotaryEmbedding.forward"]
    assert "rotary-frequencies" in report.used


def test_works_where_transformers_has_registered_the_cache() -> None:
    registered = dataclasses.replace(find_case("llama"), around=find_case("llama_official").around)
    assert_works(check(registered, Sample()), calls=188)


def test_a_sample_that_has_dropped_tokens_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = find_case("mistral_window").decoder()
    sample = decoder.sample(Sample(2, 20, 3))

    monkeypatch.setattr(decoder, "sample", lambda _: sample)
    with apply_patches(), pytest.raises(Exception, match="has dropped 13 tokens of a sliding window"):
        export(decoder, Sample(2, 20, 3), tmp_path / "model.onnx")


Module: Any = torch.nn.Module


class Hooked(Module):  # type: ignore[misc,unused-ignore]
    """Installs a hook when it is first called, and notes it in a mark and in a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.notes: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        if not getattr(self, "is_hooked", False):
            self.inner.register_forward_hook(lambda module, args, output: output + 1)
            self.is_hooked = True
        self.notes["last"] = x
        return self.inner(x)


def test_hooks_that_were_installed_while_tracing_are_taken_off() -> None:
    model, x = Hooked().eval(), torch.ones(2, 4)
    wanted = model.inner(x) + 1
    with apply_patches():
        torch.export.export(model, (x,), strict=False)
    assert (model.notes, len(model.inner._forward_hooks)) == ({}, 0)
    assert torch.equal(model(x), wanted)
    assert torch.equal(model(x), wanted)
