"""Leave-one-out: each proof of each spec fails without the spec and works with it, on the installed versions."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="a proof is an export")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from exportcompat import PatchingSpec
from exportcompat.matrix.cases._catalogue import CASES, parse_proof
from exportcompat.matrix.checks._check import check
from exportcompat.matrix.runs._own_proofs import own_proofs
from exportcompat.matrix.store import BROKEN, results_here
from exportcompat.matrix.versions import recorded_proof
from exportcompat.patches import default_registry

PROOFS = own_proofs()
"""On an older release those that only it can show; `python -m exportcompat.matrix prove` runs all that apply."""


SHOWN = {
    ("torch-onnx-multiple-outputs", "*"): "tests/test_matcher.py",
    ("torch-onnx-repeated-trace", "*"): "tests/export/test_repeated_trace.py",
    ("doge-mask", "*"): "tests/export/test_eager_decoder.py",
    ("git-mask-length", "transformers<5.0"): "tests/export/test_assumptions.py",
    ("rotary-complex", "transformers>=4.54"): "tests/export/test_complex_numbers.py",
    ("torch-onnx-sample-branches", "*"): "tests/export/test_sample_branches.py",
}
"""Specs that change no file, by id and range: a test shows what an export costs, eager gives, is refused or has."""


RESULTS = Path(__file__).parents[2] / "matrix" / "results"


@lru_cache(maxsize=1)
def found() -> dict[tuple[str, str], Any]:
    """Return what the matrix has found without a spec, with these versions and by this code, by case and proof."""
    results, here = results_here(RESULTS)
    current = {name: row for name, row in results.rows.items() if name in CASES and row.get("proofs")}
    return {
        (name, proof): item
        for name, row in current.items()
        if results.is_current(CASES[name], here)
        for proof, item in row["proofs"].items()
    }


@pytest.mark.parametrize(("spec", "proof"), PROOFS, ids=[f"{spec.id}-{proof}" for spec, proof in PROOFS])
def test_needed_and_enough(spec: PatchingSpec, proof: str) -> None:
    case, sample = parse_proof(proof)
    known = found().get(recorded_proof(spec.id, proof), {})
    if known.get("without") in BROKEN and known["with"] == "works":
        pytest.skip("the result of the case says so: found with these versions and by this code, as its key says")
    without = check(case, sample, exclude=[spec.id], again=False)
    assert without.state in ("wrong", "fails"), f"{proof} works without {spec.id}"
    if proof in CASES:
        # That the case works with every spec is what `test_models.py` shows.
        return
    together = check(case, sample, again=False)
    assert (together.state, together.problems) == ("works", [])


def test_every_spec_has_a_proof_that_exists() -> None:
    for spec in default_registry():
        is_shown = bool({(spec.id, "*"), (spec.id, spec.requires[0])} & SHOWN.keys())
        assert bool(spec.proofs) != is_shown, f"{spec.id} for {spec.requires[0]} has no proof"
        for proof in spec.proofs:
            assert parse_proof(proof)[0].name in CASES
