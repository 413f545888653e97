"""Experts are the turns of one loop of the graph: what it costs does not grow with their number, and it is right."""

from pathlib import Path
from typing import Any

import pytest
import torch

from exportcompat import apply_patches

moe = pytest.importorskip("transformers.integrations.moe")
onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.skipif(torch.__version__.split(".")[:2] < ["2", "13"], reason="scan as it is from 2.13")


class Experts(torch.nn.Module):  # type: ignore[misc]
    """Experts as transformers has them, in each of the forms that its decorator knows."""

    def __init__(self, config: Any, *, count: int, is_transposed: bool, has_bias: bool, has_gate: bool) -> None:
        super().__init__()
        self.num_experts = count
        self.act_fn = torch.nn.SiLU()
        first = "gate_up_proj" if has_gate else "up_proj"
        for name, inputs, outputs in ((first, 16, 32), ("down_proj", 16 if has_gate else 32, 16)):
            shape = (count, inputs, outputs) if is_transposed else (count, outputs, inputs)
            setattr(self, name, torch.nn.Parameter(torch.randn(shape)))
            if has_bias:
                setattr(self, f"{name}_bias", torch.nn.Parameter(torch.randn(count, outputs)))

    def forward(self, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        """Take the place of the loop; the decorator puts its dispatch here."""
        raise NotImplementedError


def experts(count: int, *, is_transposed: bool = False, has_bias: bool = False, has_gate: bool = True) -> Any:
    """Return experts whose forward is the grouped one."""
    torch.manual_seed(0)
    flags = {"is_transposed": is_transposed, "has_bias": has_bias, "has_gate": has_gate}

    class Made(Experts):
        def __init__(self, config: Any) -> None:
            super().__init__(config, count=count, **flags)

    config = type("Config", (), {"_experts_implementation": "grouped_mm"})()
    return moe.use_experts_implementation(Made, **flags)(config).eval()


def routed(tokens: int, count: int, dtype: Any = torch.float32) -> tuple[Any, Any, Any]:
    """Return inputs in which each token has chosen 3 experts."""
    shares, chosen = torch.randn(tokens, count).softmax(-1).topk(3)
    return torch.randn(tokens, 16, dtype=dtype), chosen, shares.to(dtype)


def exported(module: Any, path: Path, dtype: Any = torch.float32) -> Any:
    """Export for any number of tokens, and return the session."""
    with apply_patches(include=["experts-grouped-matmul"], on_drift="warn"):
        torch.onnx.export(
            module,
            routed(5, module.num_experts, dtype),
            str(path),
            input_names=["states", "chosen", "shares"],
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},) * 3,
            dynamo=True,
            verbose=False,
        )
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def difference(module: Any, session: Any, inputs: tuple[Any, ...]) -> float:
    """Return the largest difference from eager, as a share of its largest value."""
    with torch.no_grad():
        wanted = module(*inputs).float()
    feeds = dict(zip(("states", "chosen", "shares"), (item.numpy() for item in inputs), strict=True))
    found = torch.from_numpy(session.run(None, feeds)[0]).float()
    assert found.shape == wanted.shape
    assert wanted.numel() == 0 or wanted.abs().max() > 1
    return 0.0 if wanted.numel() == 0 else float((found - wanted).abs().max() / wanted.abs().max())


@pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")
@pytest.mark.parametrize(
    "flags",
    [{}, {"is_transposed": True, "has_bias": True}, {"has_gate": False}, {"has_gate": False, "has_bias": True}],
    ids=lambda flags: "-".join(flags) or "plain",
)
def test_every_form_at_sizes_that_the_export_did_not_see(tmp_path: Path, flags: dict[str, bool]) -> None:
    module = experts(4, **flags)
    session = exported(module, tmp_path / "experts.onnx")
    for tokens in (0, 1, 2, 64, 513):
        assert difference(module, session, routed(tokens, 4)) < 1e-5, tokens
    states, chosen, shares = routed(7, 4)
    # All tokens go to the same experts: others have no row.
    assert difference(module, session, (states, chosen[:1].expand(7, 3).contiguous(), shares)) < 1e-5


@pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")
def test_results_of_experts_are_normalized_by_learnt_weights(tmp_path: Path) -> None:
    module = experts(4)
    module.has_post_expert_norm, module.post_expert_norm = True, torch.nn.LayerNorm(16)
    torch.nn.init.normal_(module.post_expert_norm.weight)
    session = exported(module, tmp_path / "experts.onnx")
    for tokens in (1, 2, 64):
        assert difference(module, session, routed(tokens, 4)) < 1e-5, tokens


@pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")
def test_half_precision_is_summed_in_float32(tmp_path: Path) -> None:
    module = experts(4).half()
    session = exported(module, tmp_path / "experts.onnx", torch.float16)
    assert difference(module, session, routed(33, 4, torch.float16)) < 2e-3


@pytest.mark.filterwarnings("ignore::exportcompat.registry.DriftWarning")
def test_the_graph_does_not_grow_with_the_experts(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    sizes = []
    for count in (4, 32):
        exported(experts(count), tmp_path / "experts.onnx")
        graph = onnx.load(tmp_path / "experts.onnx").graph
        (scan,) = (node for node in graph.node if node.op_type == "Scan")
        (body,) = (item.g for item in scan.attribute if item.name == "body")
        sizes.append((len(graph.node), len(body.node)))
    assert sizes[0] == sizes[1]
