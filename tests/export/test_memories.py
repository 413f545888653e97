"""XLNet: its memories have the batch as their second axis, and a file goes on from them as `generate` does."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="memories are tensors")
pytest.importorskip("transformers", reason="XLNet is a model of transformers")

from exportcompat import apply_patches, export
from exportcompat._observer import InputObserver, observe
from exportcompat.matrix.cases import find_case
from exportcompat.matrix.runs._own_proofs import is_older

pytestmark = pytest.mark.skipif(is_older(), reason="generate of older releases hands it over in another way")
STEPS = 14
"""More than the memories hold."""


def prompt(batch: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, 128, (batch, length), generator=torch.Generator().manual_seed(length))}


@pytest.fixture
def model() -> Any:
    return find_case("xlnet_export").decoder().model


def test_axes_of_memories_and_masks_are_those_of_the_tokens(model: Any) -> None:
    with apply_patches():
        observer = observe(model, prompt(2, 5))
    observer.infer_dynamic_shapes(set_batch_dimension_for=True)
    assert observer.axes() == {
        "input_ids": {0: "batch", 1: "sequence"},
        "mems.0": {0: "memory", 1: "batch"},
        "mems.1": {0: "memory", 1: "batch"},
        "perm_mask": {0: "batch", 1: "sequence", 2: "sequence"},
        "target_mapping": {0: "batch", 2: "sequence"},
    }


def test_a_file_goes_on_as_generate_does(model: Any, tmp_path: Path) -> None:
    path = export(model, prompt(2, 5), tmp_path, verify=False, on_assumption="error").path
    for batch, length in ((1, 6), (3, 4)):
        observer = InputObserver()
        with apply_patches(), observer(model, store_n_calls=STEPS):
            model.generate(**prompt(batch, length), max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False)
        found = observer.check_discrepancies(path)
        assert found.success, found
        assert len(found) >= STEPS
