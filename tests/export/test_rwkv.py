"""RWKV goes on from its state: each text of a batch by itself, and from nothing whatever the keys are."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="a state is made of tensors")
pytest.importorskip("transformers", reason="RWKV is a model of transformers")

from exportcompat import apply_patches, plan
from exportcompat._observer import observe
from exportcompat.matrix.cases import find_case
from exportcompat.patches.recurrent import rwkv_scan

if not any(item.spec.id == "rwkv-scan" and item.applies for item in plan()):
    pytest.skip("rwkv-scan is for newer releases", allow_module_level=True)

TOKENS = torch.tensor([[5, 6, 7, 8], [9, 3, 4, 5]])


@pytest.fixture
def model() -> Any:
    return find_case("rwkv_export").decoder().model


def last_logits(model: Any, tokens: Any) -> Any:
    with torch.no_grad():
        state = model(tokens[:, :-1], use_cache=True).state
        return model(tokens[:, -1:], state=state, use_cache=True).logits[:, -1]


def test_texts_of_a_batch_do_not_depend_on_each_other(model: Any) -> None:
    with torch.no_grad():
        wanted = model(TOKENS, use_cache=False).logits[:, -1]
    with apply_patches():
        assert torch.allclose(last_logits(model, TOKENS), wanted, atol=1e-5)
    # That is what upstream does; when it does not any more, the spec has less to do.
    assert not torch.allclose(last_logits(model, TOKENS), wanted, atol=1e-3)


def test_a_state_is_a_cache_without_a_length(model: Any) -> None:
    with apply_patches():
        inputs, outputs = observe(model, {"input_ids": TOKENS}).interface()
    names = [str(number) for number in range(5)]
    assert inputs == ["input_ids", "attention_mask", *(f"past_key_values.{name}" for name in names)]
    assert outputs == ["logits", *(f"present.{name}" for name in names)]


def test_a_program_of_a_model_that_was_not_called_divides_no_weights(model: Any) -> None:
    model.rwkv.config.rescale_every = 1
    called = copy.deepcopy(model)
    with torch.no_grad():
        wanted = called(TOKENS, use_cache=False).logits
    with apply_patches():
        program = torch.export.export(model, (), {"input_ids": TOKENS}, strict=False).module()
    for found in (program(input_ids=TOKENS), program(input_ids=TOKENS), model(TOKENS, use_cache=False)):
        assert torch.allclose(found["logits"], wanted, atol=1e-4)


def test_zeros_are_an_empty_state_for_every_key() -> None:
    zeros = torch.zeros(1, 2)
    begun = rwkv_scan._begun((zeros, zeros, zeros), zeros)
    numerator, denominator, _ = rwkv_scan._added(begun, begun[2], torch.tensor([[-200.0, 200.0]]), torch.ones(1, 2))
    assert (numerator / denominator).tolist() == [[1.0, 1.0]]
