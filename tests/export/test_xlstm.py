"""xLSTM goes through a text as one, whatever its limits are, and its cache comes back as it was."""

import copy
import inspect
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a cache is made of tensors")
pytest.importorskip("transformers", reason="xLSTM is a model of transformers")

from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

from exportcompat import apply_patches, export, plan
from exportcompat._verification import OnnxDecoder
from exportcompat.matrix.cases import find_case
from exportcompat.patches.toolkit.cache_names import cache_name

if not any(item.spec.id == "xlstm-scan" and item.applies for item in plan()):
    pytest.skip("xlstm-scan is for newer releases", allow_module_level=True)

TOKENS = torch.randint(3, 128, (2, 70), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def model() -> Any:
    return find_case("xlstm_export").decoder().model


def test_a_text_of_more_than_a_chunk_and_a_part_is_right(model: Any, tmp_path: Path) -> None:
    with torch.no_grad():
        try:
            wanted = model(TOKENS).logits
        except TypeError as error:
            # https://github.com/huggingface/transformers/blob/v4.57.6/src/transformers/models/xlstm/modeling_xlstm.py#L230
            pytest.skip(f"eager itself does not take 64 tokens and more in this release: {error}")
    model.config.max_inference_chunksize = 16
    path = export(model, {"input_ids": TOKENS[:, :5]}, tmp_path, verify=False, on_assumption="error").path
    assert model.config.max_inference_chunksize == 16
    decoder = OnnxDecoder(path)
    logits, cache = decoder({"input_ids": TOKENS[:, :3]}, decoder.empty_cache(2))
    rest, _ = decoder({"input_ids": TOKENS[:, 3:]}, cache)
    assert torch.allclose(torch.cat([logits, rest], 1), wanted, atol=1e-3)


def test_a_cache_comes_back_as_it_was(model: Any) -> None:
    name = cache_name(inspect.signature(model.forward).parameters)
    with torch.no_grad():
        cache = model(TOKENS[:, :5], use_cache=True)[name]
        with apply_patches():
            leaves, spec = tree_flatten_with_path(cache)
            rebuilt = tree_unflatten([leaf.clone() for _, leaf in leaves], spec)
        wanted = model(TOKENS[:, 5:6], **{name: copy.deepcopy(cache)}, use_cache=True)
        found = model(TOKENS[:, 5:6], **{name: rebuilt}, use_cache=True)
    names = [f"{layer}.{state}" for layer in (0, 1) for state in ("cell_state", "normalizer_state", "exponent_state")]
    assert [path[0].key for path, _ in leaves] == names
    assert torch.equal(found.logits, wanted.logits)
    assert (int(found[name].seqlen_offset), int(cache.seqlen_offset)) == (6, 5)
