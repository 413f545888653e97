"""Attention whose past decays goes through a text in chunks: one graph gives for any call what a loop gives."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="states are tensors")
onnxruntime = pytest.importorskip("onnxruntime", reason="a graph is run")
pytest.importorskip("torch.onnx._internal.exporter._torchlib.ops.hop", reason="torch puts `scan` into ONNX since 2.9")

from exportcompat import apply_patches
from exportcompat.patches.recurrent import _decayed_attention

GROUPS, HEADS, KEY, VALUE = 2, 3, 5, 4


def looped(query: Any, key: Any, value: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """Return what token by token gives, in double precision."""
    query, key, value, decay, state = (item.double() for item in (query, key, value, decay, state))
    outputs = []
    for token in range(query.shape[1]):
        entered = value[:, token, ..., None] * key[:, token, ..., None, :]
        state = state * decay[:, token].exp()[..., None, None] + entered
        outputs.append((state @ query[:, token, ..., None])[..., 0])
    return torch.stack(outputs, 1), state


def made(batch: int, tokens: int) -> tuple[Any, ...]:
    """Return inputs: one head keeps all, one forgets slowly, and one in no time; the keys of a group are alike."""
    torch.manual_seed(tokens)
    query, key = (torch.randn(batch, tokens, GROUPS, 1, KEY) for _ in range(2))
    key[:, :, 1] = key[:, :1, 1]
    value = torch.randn(batch, tokens, GROUPS, HEADS, VALUE)
    decay = -torch.rand(batch, tokens, GROUPS, HEADS) * torch.tensor([0, 0.01, 60])
    return query, key, value, decay, torch.randn(batch, GROUPS, HEADS, VALUE, KEY)


Module: Any = torch.nn.Module


class Attention(Module):
    """The function as a model."""

    def forward(self, query: Any, key: Any, value: Any, decay: Any, state: Any) -> Any:
        return _decayed_attention.decayed_attention(query, key, value, decay, state)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path, axis = tmp_path_factory.mktemp("chunks") / "attention.onnx", torch.export.Dim.DYNAMIC
    shapes = (*({0: axis, 1: axis},) * 4, {0: axis})
    with apply_patches():
        program = torch.onnx.export(Attention().eval(), made(2, 7), dynamic_shapes=shapes, dynamo=True, verbose=False)
    program.save(path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 1), (1, 2), (2, 31), (1, 64), (3, 65), (1, 129), (2, 300)])
def test_any_number_of_tokens_gives_what_a_loop_gives(session: Any, batch: int, tokens: int) -> None:
    given = made(batch, tokens)
    names = [item.name for item in session.get_inputs()]
    found = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, given, strict=True)})
    for one, other in zip(found, looped(*given), strict=True):
        torch.testing.assert_close(torch.from_numpy(one).double(), other, rtol=1e-4, atol=1e-4)
