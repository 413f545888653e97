"""A program for any runtime multiplies no complex numbers; an ONNX file is right with and without that."""

import pytest

torch = pytest.importorskip("torch", reason="a program is captured")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from exportcompat import apply_patches
from exportcompat.matrix.cases import Sample, find_case

SPEC = "rotary-complex"


def multiplies_complex_numbers(name: str, exclude: tuple[str, ...] = ()) -> bool:
    """Say whether the captured program of a case does."""
    decoder = find_case(name).decoder()
    inputs = decoder.sample(Sample())
    with apply_patches(exclude=exclude):
        program = torch.export.export(decoder.model, (), inputs, strict=False)
    products = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    # A scale of the factors is a real number.
    factors = [[item.meta["val"] for item in node.args if isinstance(item, torch.fx.Node)] for node in products]
    return any(len(pair) == 2 and all(item.is_complex() for item in pair) for pair in factors)


@pytest.mark.parametrize("name", ["llama4", "deepseek_v2"])
def test_queries_and_keys_are_turned_by_pairs(name: str) -> None:
    if not find_case(name).exists():
        pytest.skip("no such model here")
    assert multiplies_complex_numbers(name, (SPEC,)) and not multiplies_complex_numbers(name)
