"""Records of specs in variants: their fields, their ranges, and where they say that they are defined."""

from pathlib import Path
from typing import Any

import pytest

from exportcompat.patches.toolkit.records import source, variants
from exportcompat.registry import SpecError

BASE: dict[str, Any] = {
    "id": "mine",
    "targets": ("fakepkg:f",),
    "replacement": "fakepkg:patch_f",
    "reason": "-",
    "upstream": (source("models/jamba/modeling_jamba.py", "v4.44.2"),),
    "proofs": ("llama",),
    "kind": "wrap",
}


def test_each_range_has_what_it_changes() -> None:
    first, second = variants(BASE, {"transformers>=4.44,<5": {}, "transformers>=5": {"proofs": ("gemma",)}})
    assert (first.proofs, second.proofs, second.reason) == (("llama",), ("gemma",), "-")


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        ("transformers>=5", ["transformers>=5", "torch>=2.6"]),
        ("torch>=2.7", ["torch>=2.7"]),
        (("transformers>=5", "torch>=2.6,<2.7"), ["transformers>=5", "torch>=2.6,<2.7"]),
    ],
)
def test_the_oldest_torch_is_implied(ranges: Any, wanted: list[str]) -> None:
    (spec,) = variants(BASE, {ranges: {}})
    assert [str(item) for item in spec.ranges] == wanted


def test_they_are_defined_where_they_are_written_down() -> None:
    (spec,) = variants(BASE, {"transformers>=5": {}})
    assert Path(spec.definer.rpartition(":")[0]) == Path(__file__)


def test_a_source_is_a_link() -> None:
    begin = "https://github.com/huggingface/transformers/blob/v4.44.2/src/transformers"
    assert source("models/jamba/modeling_jamba.py", "v4.44.2") == f"{begin}/models/jamba/modeling_jamba.py"


def test_what_is_malformed_is_refused() -> None:
    with pytest.raises(SpecError, match="is not a version range"):
        variants(BASE, {"transformers==": {}})


@pytest.mark.parametrize("base", [{"requires": ("torch>=2.8",)}, {}])
def test_requires_beside_a_range_is_refused_and_not_dropped(base: dict[str, Any]) -> None:
    fields = {} if base else {"requires": ("onnxscript<0.7.1",)}
    with pytest.raises(SpecError, match=r"spec 'mine': `requires` is given beside the range 'torch>=2.9'"):
        variants({**BASE, **base}, {"torch>=2.9": fields})
