"""Models that are exported for whole texts: what a graph cannot check is refused, and not dropped."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from exportcompat import apply_patches, plan
from exportcompat.matrix.cases import find_case

if not any(item.spec.id == "xlm-length-check" and item.applies for item in plan()):
    pytest.skip("xlm-length-check is for newer releases", allow_module_level=True)

TOKENS = torch.tensor([[5, 6, 7, 8], [9, 3, 4, 5]])


def captured(name: str, **inputs: Any) -> Any:
    model = find_case(name).decoder().model
    with apply_patches():
        return torch.export.export(model, (), {"input_ids": TOKENS, **inputs}, strict=False)


@pytest.mark.parametrize("name", ["xlm", "flaubert"])
def test_lengths_that_are_given_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"pass `attention_mask`, with 0 behind each text, instead"):
        captured(name, lengths=torch.tensor([4, 2]))


@pytest.mark.parametrize("name", ["xlm", "flaubert"])
def test_a_mask_says_the_same_as_lengths(name: str) -> None:
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    found = captured(name, attention_mask=mask).module()(input_ids=TOKENS, attention_mask=mask)["logits"]
    with torch.no_grad():
        wanted = find_case(name).decoder().model(TOKENS, lengths=torch.tensor([4, 2])).logits
    assert torch.allclose(found, wanted, atol=1e-5)
