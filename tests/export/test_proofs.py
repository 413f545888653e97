"""Leave-one-out: each proof of each spec fails without the spec and works with it, on the installed versions."""

import pytest

pytest.importorskip("torch", reason="a proof is an export")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from exportcompat import PatchingSpec
from exportcompat.matrix.cases._catalogue import CASES, parse_proof
from exportcompat.matrix.checks._check import check
from exportcompat.matrix.proofs._prove import own_proofs
from exportcompat.patches import default_registry

PROOFS = own_proofs()
"""On an older release those that only it can show; `python -m exportcompat.matrix prove` runs all that apply."""


SHOWN = {
    ("torch-onnx-multiple-outputs", "*"): "tests/test_matcher.py",
    ("torch-onnx-repeated-trace", "*"): "tests/export/test_repeated_trace.py",
    ("doge-mask", "*"): "tests/export/test_eager_decoder.py",
    ("git-mask-length", "transformers<5.0"): "tests/export/test_assumptions.py",
    ("rotary-complex", "transformers>=4.54"): "tests/export/test_complex_numbers.py",
}
"""Specs that change no file, by id and range: a test shows what an export costs, eager gives, is refused or has."""


@pytest.mark.parametrize(("spec", "proof"), PROOFS, ids=[f"{spec.id}-{proof}" for spec, proof in PROOFS])
def test_needed_and_enough(spec: PatchingSpec, proof: str) -> None:
    case, sample = parse_proof(proof)
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
