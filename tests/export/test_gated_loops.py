"""Experts of models that have a loop of their own over those that were hit."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.24")

from exportcompat import apply_patches

_SIZES = {"num_local_experts": 4, "hidden_size": 8, "intermediate_size": 6, "moe_intermediate_size": 6}


def experts(model: str, name: str) -> Any:
    module = pytest.importorskip(f"transformers.models.{model}.modeling_{model}")
    config = SimpleNamespace(
        **_SIZES, hidden_act="silu", _experts_implementation="eager", swiglu_limit=7.0, swiglu_alpha=1.7
    )
    made = getattr(module, name)(config).eval()
    for weight in made.parameters():
        torch.nn.init.normal_(weight)
    return made


def call(tokens: int) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(tokens)
    # The number behind the last expert stands for none.
    chosen = torch.stack([torch.randperm(5, generator=generator)[:2] for _ in range(tokens)])
    return torch.randn(tokens, 8, generator=generator), chosen, torch.rand(tokens, 2, generator=generator)


def exported(module: Any, **scope: Any) -> Any:
    tokens = torch.export.Dim.DYNAMIC
    with apply_patches(**scope), torch.no_grad():
        return torch.export.export(module, call(5), dynamic_shapes=({0: tokens}, {0: tokens}, {0: tokens})).module()


@pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the scan needs torch 2.13")
@pytest.mark.parametrize(("model", "name"), [("step3p7", "Step3p7Experts")])
def test_experts_with_a_gate_of_their_own(model: str, name: str) -> None:
    module = experts(model, name)
    with pytest.raises(Exception, match="data-dependent"):
        exported(module, exclude=["experts-own-scan"])
    program = exported(module)
    with torch.no_grad():
        for tokens in (1, 3, 17):
            assert (program(*call(tokens)) - module(*call(tokens))).abs().max() < 1e-4
