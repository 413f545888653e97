"""Models that are exported for whole texts: what a graph cannot check is refused, and not dropped."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", reason="the cases are models of transformers")

from exportcompat import NoCacheError, apply_patches, export, plan
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


def test_git_with_images_has_no_cache(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = {**sizes, "image_size": 16, "patch_size": 8}
    config = transformers.GitConfig(vision_config=vision, vocab_size=64, **sizes)
    model = transformers.GitForCausalLM(config).eval()
    inputs = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS), "pixel_values": torch.rand(2, 3, 16, 16)}
    with pytest.raises(
        NoCacheError, match=r"generate=False .*; for a cache, (leave pixel_values out|use transformers 5)"
    ):
        export(model, inputs, tmp_path, generate=True)
    assert not list(tmp_path.iterdir())
    with pytest.warns(UserWarning, match=r"the file has no cache .*: spec 'git-mask-length': .*leave pixel_values out"):
        made = export(model, inputs, tmp_path)
    assert made.discrepancies is not None and made.discrepancies.success
