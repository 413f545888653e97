"""The gated delta rule goes through a text in chunks: one graph gives for any call what token by token gives."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="states are tensors")
onnxruntime = pytest.importorskip("onnxruntime", reason="a graph is run")

from exportcompat import apply_patches
from exportcompat.patches.recurrent import _delta_blockwise, _delta_chunks

HEADS, KEY, VALUE = 4, 16, 8
RATES = torch.tensor([0, 0.01, 60, 1])
"""Of the heads one keeps all, one forgets slowly and one in no time."""


def looped(query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return the outputs and the last state that token by token gives, in double precision."""
    query, key, value, beta, decay, state = (item.double() for item in (query, key, value, beta, decay, state))
    decay = decay if decay.ndim == key.ndim else decay[..., None]
    outputs = []
    for token in range(query.shape[1]):
        state = state * decay[:, token, ..., None].exp()
        change = (value[:, token] - (key[:, token, :, None] @ state)[:, :, 0]) * beta[:, token, :, None]
        state = state + key[:, token, ..., None] * change[:, :, None]
        outputs.append((query[:, token, :, None] @ state)[:, :, 0] * KEY**-0.5)
    return torch.stack(outputs, 1), state


def made(
    batch: int, tokens: int, *, by_channel: bool, keys: str = "each", beta: float | None = None
) -> tuple[Any, ...]:
    """Return inputs with keys of length 1: a new one for each token, four that come again, or one with either sign."""
    torch.manual_seed(tokens)
    query, key = (torch.randn(batch, tokens, HEADS, KEY) for _ in range(2))
    if keys == "four":
        key = key[:, torch.arange(tokens) % 4]
    if keys == "one":
        key = key[:, :1] * (1 - 2 * (torch.rand(batch, tokens, 1, 1) < 0.1).float())
    query, key = (torch.nn.functional.normalize(part, dim=-1) for part in (query, key))
    value, enter = torch.randn(batch, tokens, HEADS, VALUE), torch.rand(batch, tokens, HEADS)
    shape, rates = (batch, tokens, HEADS, KEY), RATES[:, None]
    decay = -torch.rand(shape) * rates if by_channel else -torch.rand(shape[:-1]) * RATES
    enter = enter if beta is None else torch.full_like(enter, beta)
    return query, key, value, enter, decay, torch.randn(batch, HEADS, KEY, VALUE)


Module: Any = torch.nn.Module


class Rule(Module):
    """The function as a model."""

    def forward(self, query: Any, key: Any, value: Any, beta: Any, decay: Any, state: Any) -> Any:
        return _delta_chunks.scan_delta_rule(query, key, value, beta, decay, state)


@pytest.fixture(scope="module", params=[False, True], ids=["decay-of-a-head", "decay-of-a-channel"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch.onnx._internal.exporter._torchlib.ops.hop", reason="torch lowers `scan` since 2.9")
    path, axis = tmp_path_factory.mktemp("chunks") / "rule.onnx", torch.export.Dim.DYNAMIC
    sample, shapes = made(2, 7, by_channel=request.param), (*({0: axis, 1: axis},) * 5, {0: axis})
    with apply_patches():
        program = torch.onnx.export(Rule().eval(), sample, dynamic_shapes=shapes, dynamo=True, verbose=False)
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_inputs()]

    def call(*size: int, **how: Any) -> tuple[Any, Any]:
        given = made(*size, by_channel=request.param, **how)
        found = session.run(None, {name: item.numpy() for name, item in zip(names, given, strict=True)})
        return [torch.from_numpy(item).double() for item in found], looped(*given)

    return call


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 1), (1, 2), (2, 9), (2, 31), (1, 32), (3, 65), (2, 300)])
def test_any_number_of_tokens_gives_what_a_loop_gives(run: Any, batch: int, tokens: int) -> None:
    for one, other in zip(*run(batch, tokens), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("keys", ["one", "four"])
@pytest.mark.parametrize("beta", [0.5, 1, 1.99])
def test_a_long_text_of_keys_that_are_alike_loses_nothing(run: Any, keys: str, beta: float) -> None:
    for one, other in zip(*run(1, 16384, keys=keys, beta=beta), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize(("tokens", "how"), [(1, {}), (33, {}), (300, {"keys": "one", "beta": 1})])
def test_without_a_scan_it_gives_the_same(tokens: int, how: dict[str, Any], by_channel: bool) -> None:
    given = made(2, tokens, by_channel=by_channel, **how)
    for one, other in zip(_delta_blockwise.chunkwise_delta_rule(*given), looped(*given), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
