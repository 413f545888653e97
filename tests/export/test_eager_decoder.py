"""What an exported decoder is compared with, where eager mode of a release is at fault or wants to be asked."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="what is compared are calls of a torch module")

from exportcompat import apply_patches, export, plan
from exportcompat._observer._padded_companion import is_prompt, needs_companion, with_companion, without_companion

IS_DOGE_MENDED = any(item.spec.id == "doge-mask" and item.applies for item in plan())
HAS_OWN_MASKS = any(item.spec.id == "window-in-own-mask" and item.applies for item in plan())


def test_a_prompt_whose_tokens_see_later_ones_gets_a_padded_companion() -> None:
    assert needs_companion(_unless_padded, _prompt())


@pytest.mark.parametrize("is_causal", [True, False])
def test_others_get_none(is_causal: bool) -> None:
    def logits(call: Any) -> Any:
        return _causal(call) if is_causal else _all_seen(call)

    assert not needs_companion(logits, _prompt())


def test_a_companion_is_the_first_text_without_its_first_token() -> None:
    call = _prompt()
    rows = with_companion(call)
    assert is_prompt(call)
    assert not is_prompt(rows)
    assert rows["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 1], [0, 1, 1]]
    assert rows["input_ids"].tolist() == [[5, 6, 7], [8, 9, 5], [5, 6, 7]]
    assert call["attention_mask"].all()


def test_of_logits_of_the_last_token_alone_none_tells() -> None:
    assert not needs_companion(lambda call: _causal(call)[:, -1:], _prompt())


def test_the_streams_of_a_companion_are_left_out_with_it() -> None:
    rows = torch.arange(6)[:, None]
    assert without_companion(rows, 2).flatten().tolist() == [0, 1, 2, 3]


def _prompt() -> dict[str, Any]:
    tokens = torch.tensor([[5, 6, 7], [8, 9, 5]])
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def _causal(call: Any) -> Any:
    return call["input_ids"].double().cumsum(1)[..., None]


def _all_seen(call: Any) -> Any:
    tokens = call["input_ids"].double()
    return tokens.sum(1, keepdim=True).expand_as(tokens)[..., None]


def _unless_padded(call: Any) -> Any:
    return _all_seen(call) if call["attention_mask"].all() else _causal(call)


@pytest.mark.parametrize(
    "model_type",
    [
        pytest.param("electra", id="cache-on-request"),
        pytest.param("moshi", id="masks-of-dropped-tokens"),
    ],
)
def test_a_decoder_is_compared_with_what_upstream_means(model_type: str, tmp_path: Path) -> None:
    made = export(_model(model_type), {"input_ids": torch.randint(3, 60, (1, 5))}, tmp_path)
    assert made.discrepancies is not None
    assert made.discrepancies.success, str(made.discrepancies)


def test_kinds_of_tokens_that_come_with_every_call_are_compared_in_every_call(tmp_path: Path) -> None:
    """The tokenizers of 4.57 make them for GPT-2, which adds what the word table has for each."""
    transformers = pytest.importorskip("transformers", reason="the models are those of transformers")
    config = transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=128)
    tokens = torch.randint(3, 60, (1, 5))
    inputs = {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "token_type_ids": torch.zeros_like(tokens),
    }
    made = export(transformers.GPT2LMHeadModel(config).eval(), inputs, tmp_path)
    assert made.discrepancies is not None
    assert made.discrepancies.success, str(made.discrepancies)


@pytest.mark.skipif(not HAS_OWN_MASKS, reason="caches slide from transformers 4.56 on, masks know of it from 5.2 on")
def test_it_is_said_that_eager_has_the_mask_of_other_keys(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the models are those of transformers")
    config = transformers.StableLmConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=8,
    )
    model = transformers.StableLmForCausalLM(config).eval()
    made = export(model, {"input_ids": torch.randint(3, 60, (1, 5))}, tmp_path)
    assert made.discrepancies is not None
    assert made.discrepancies.success, str(made.discrepancies)
    assert any("mask of the first tokens" in note for note in made.discrepancies.notes)


@pytest.mark.skipif(not IS_DOGE_MENDED, reason="Doge asks for its mask from transformers 5.18 on")
def test_doge_is_causal_inside_a_scope(tmp_path: Path) -> None:
    model, tokens = _model("doge"), torch.randint(3, 60, (2, 6))
    other = tokens.clone()
    other[:, -1] += 1
    assert _difference(model, tokens, other) > 0.1
    with apply_patches():
        assert _difference(model, tokens, other) == 0
    made = export(model, {"input_ids": tokens}, tmp_path)
    assert made.discrepancies is not None
    assert made.discrepancies.success, str(made.discrepancies)
    assert any("padded text" in note for note in made.discrepancies.notes)


def _difference(model: Any, tokens: Any, other: Any) -> float:
    with torch.no_grad():
        first, second = (model(input_ids=item).logits[:, :-1] for item in (tokens, other))
    return float((first - second).abs().max())


def _model(model_type: str) -> Any:
    pytest.importorskip("transformers", reason="the models are those of transformers")
    from exportcompat.matrix.zoo import build_type

    return build_type("text-generation-with-past", model_type)
