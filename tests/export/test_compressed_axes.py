"""What is inferred for caches of a kind of their own, from calls of a model of transformers."""

import pytest

torch = pytest.importorskip("torch", reason="models are run")
pytest.importorskip("transformers", reason="models are run")

from exportcompat import apply_patches
from exportcompat._observer import observe
from exportcompat.matrix.cases import find_case


def test_the_axes_of_a_past_that_is_kept_compressed() -> None:
    """They begin empty, are none of the past, and layers of one kind share them."""
    case = find_case("deepseek_v4")
    if not case.exists():
        pytest.skip("this transformers has no DeepSeek-V4")
    decoder = case.decoder()
    with apply_patches():
        observer = observe(decoder.model, {"input_ids": torch.arange(2, 10)[None]})
    observer.infer_dynamic_shapes(True)
    axes = {name.removeprefix("past_key_values."): found for name, found in observer.axes().items()}
    kinds = decoder.model.config.layer_types
    sparse, heavy = kinds.index("compressed_sparse_attention"), kinds.index("heavily_compressed_attention")
    for index in (sparse, heavy):
        assert axes[f"{index}.key"][2] == "past_sequence"
        assert axes[f"{index}.compressor_buffer_kv"] == {0: "batch", 1: f"layer_{index}_open"}
        assert axes[f"{index}.compressor_compressed_kv"] == {0: "batch", 1: f"layer_{index}_entries"}
    for part in ("compressor", "indexer"):
        assert axes[f"{sparse}.{part}_overlap_gate"] == {0: "batch", 1: f"layer_{sparse}_window"}
