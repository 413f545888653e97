"""Recurrences that go through a text in chunks: one graph gives what a loop over the tokens gives, for any number."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="states are tensors")
onnxruntime = pytest.importorskip("onnxruntime", reason="a graph is run")
pytest.importorskip("torch.onnx._internal.exporter._torchlib.ops.hop", reason="torch puts `scan` into ONNX since 2.9")

from exportcompat import apply_patches
from exportcompat.patches.recurrent import _decayed_attention, _delta_blockwise, _delta_scan

HEADS, KEY, VALUE = 3, 5, 4
RULES = ("decayed", "delta", "channels")


def looped(rule: str, query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return what token by token gives, in double precision."""
    query, key, value, beta, decay, state = (item.double() for item in (query, key, value, beta, decay, state))
    outputs = []
    for token in range(query.shape[1]):
        state = state * decay[:, token].exp()[..., None]
        change = value[:, token]
        if rule != "decayed":
            read = (state * key[:, token, ..., None]).sum(-2)
            change = (change - read) * beta[:, token, :, None]
        state = state + key[:, token, ..., None] * change[..., None, :]
        outputs.append((state * query[:, token, ..., None]).sum(-2) * (1 if rule == "decayed" else KEY**-0.5))
    return torch.stack(outputs, 1), state


def made(rule: str, batch: int, tokens: int) -> tuple[Any, ...]:
    """Return inputs: a head keeps all, one forgets slowly, and one in no time; the keys of the second are alike."""
    torch.manual_seed(tokens)
    query, key, value = (torch.randn(batch, tokens, HEADS, size) for size in (KEY, KEY, VALUE))
    key[:, :, 1] = key[:, :1, 1]
    query, key = (_delta_scan.l2_normalized(part) for part in (query, key))
    sizes = (batch, tokens, HEADS, KEY if rule == "channels" else 1)
    decay = -torch.rand(sizes) * torch.tensor([0, 0.01, 60])[:, None]
    return query, key, value, torch.rand(batch, tokens, HEADS), decay, torch.randn(batch, HEADS, KEY, VALUE)


class Rules(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # torch has no types in every release.
    """All rules in one graph."""

    def forward(self, decayed: Any, delta: Any, channels: Any) -> list[Any]:
        query, key, value, _, decay, state = decayed
        heads = (part[..., None, :] for part in (query, key, value))
        turned = state.transpose(-1, -2)[:, :, None]
        outputs, last = _decayed_attention.decayed_attention(*heads, decay, turned)
        found = [outputs[..., 0, :], last[:, :, 0].transpose(-1, -2)]
        query, key, value, beta, decay, state = delta
        found += _delta_scan.scan_delta_rule(query, key, value, beta, decay[..., 0], state)
        return found + list(_delta_scan.scan_delta_rule(*channels))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("chunks") / "rules.onnx"
    axis = torch.export.Dim.DYNAMIC
    shapes = ((*({0: axis, 1: axis},) * 5, {0: axis}),) * 3
    with apply_patches():
        program = torch.onnx.export(
            Rules().eval(), tuple(made(rule, 2, 7) for rule in RULES), dynamic_shapes=shapes, dynamo=True, verbose=False
        )
    program.save(path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 1), (1, 2), (2, 31), (1, 64), (3, 65), (1, 129), (2, 300)])
def test_any_number_of_tokens_gives_what_a_loop_gives(session: Any, batch: int, tokens: int) -> None:
    given = [made(rule, batch, tokens) for rule in RULES]
    names = [item.name for item in session.get_inputs()]
    tensors = [tensor.numpy() for inputs in given for tensor in inputs]
    # `beta` of the rule without one is no input of the graph.
    used = tensors if len(names) == len(tensors) else [*tensors[:3], *tensors[4:]]
    found = session.run(None, dict(zip(names, used, strict=True)))
    expected = [part for rule, inputs in zip(RULES, given, strict=True) for part in looped(rule, *inputs)]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(one).double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rule", RULES[1:])
@pytest.mark.parametrize("tokens", [1, 32, 100])
def test_blocks_without_a_scan_give_it_too(rule: str, tokens: int) -> None:
    given = made(rule, 2, tokens)
    *parts, decay, state = given
    decay = decay if rule == "channels" else decay[..., 0]
    for one, other in zip(
        _delta_blockwise.chunkwise_delta_rule(*parts, decay, state), looped(rule, *given), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
