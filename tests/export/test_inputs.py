"""What people hand over besides tokens: floats for a model in a smaller dtype, embeddings, configurations per layer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="inputs are tensors")

from exportcompat._exporter._client_configs import _genai_config, _is_for_genai
from exportcompat._exporter._steps import cast_inputs
from exportcompat._observer import InputObserver
from exportcompat._observer._embedded_tokens import embedded, embeddings_of
from exportcompat._observer._record import Part, Record
from exportcompat._sample_inputs._made_inputs import sound


def test_floats_are_cast_and_integers_are_not() -> None:
    given: dict[str, Any] = {
        "pixel_values": torch.ones(1, 3),
        "input_ids": torch.ones(1, 3, dtype=torch.int64),
        "masks": [torch.ones(1)],
    }
    cast: Any = cast_inputs([given], "float16")
    (found,) = cast
    assert [found["pixel_values"].dtype, found["masks"][0].dtype, found["input_ids"].dtype] == [
        torch.float16,
        torch.float16,
        torch.int64,
    ]
    assert cast_inputs(given, None) is given


class Unembedded:
    """A class whose tokens are embedded nobody knows where, as transformers says it."""

    def get_input_embeddings(self) -> Any:
        raise NotImplementedError


def record(**inputs: Any) -> Record:
    part = Part()
    for name, value in inputs.items():
        part.add(name, value)
    return Record(part, Part(), 0, 0.0)


def test_a_class_without_embeddings_has_none() -> None:
    assert embeddings_of(Unembedded()) is None
    assert embeddings_of(object()) is None


def test_later_calls_of_generate_have_embeddings_where_the_first_has_them() -> None:
    table = torch.nn.Embedding(9, 4)
    model = SimpleNamespace(get_input_embeddings=lambda: table)
    tokens = torch.tensor([[3, 5]])
    first, later = embedded([record(inputs_embeds=torch.ones(1, 3, 4)), record(input_ids=tokens)], model)
    assert list(first.inputs.trees) == list(later.inputs.trees) == list(later.inputs.tensors) == ["inputs_embeds"]
    assert torch.equal(later.inputs.tensors["inputs_embeds"], table(tokens))


def test_calls_with_tokens_alone_stay_as_they_are() -> None:
    records = [record(input_ids=torch.tensor([[3, 5]]))]
    assert embedded(records, SimpleNamespace(get_input_embeddings=lambda: torch.nn.Embedding(9, 4))) is records


def test_a_configuration_that_differs_by_layer_gets_no_genai_config(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"genai_config.json is not written.*num_attention_heads.*optimum instead"):
        assert _genai_config(SimpleNamespace(model_type="mixed"), "model.onnx", []) is None


@pytest.mark.parametrize("field", ["rope_parameters", "rope_scaling"])
def test_positions_of_time_height_and_width_are_none_of_genai(field: str) -> None:
    names = ["input_ids", "position_ids", "past_key_values.0.key", "past_key_values.0.value"]
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    assert _is_for_genai(SimpleNamespace(**{field: rope}), names)
    for config in (SimpleNamespace(**{field: {**rope, "mrope_section": [2, 1, 1]}}),):
        assert not _is_for_genai(config, names)
        # The sections are those of the text, wherever the configuration has it.
        assert not _is_for_genai(SimpleNamespace(get_text_config=lambda config=config: config), names)


class Turned(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is imported if it is there.
    """A model with a row of positions for time, height and width each."""

    def forward(self, input_ids: Any, position_ids: Any) -> Any:
        return input_ids + position_ids.sum(0)


@pytest.mark.parametrize("rows", [3, 4])
def test_rows_of_positions_are_no_batch(rows: int) -> None:
    model, observer = Turned(), InputObserver()
    with observer(model):
        for batch, length in ((1, 5), (2, 7)):
            model(torch.ones(batch, length, dtype=torch.int64), torch.ones(rows, batch, length, dtype=torch.int64))
    axes = observer.axes()
    assert axes["position_ids"] == {1: "batch", 2: "sequence"}
    assert axes["input_ids"] == {0: "batch", 1: "sequence"}


class Listener:
    """A model of sounds with a configuration."""

    def __init__(self, **parts: Any) -> None:
        self.config = SimpleNamespace(**{name: Inner(**fields) for name, fields in parts.items()})

    def forward(self, input_features: Any, input_features_mask: Any = None) -> None:
        """Take sounds and what of them is there."""


class Inner(SimpleNamespace):
    """A configuration in another one."""

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


@pytest.mark.parametrize(
    ("parts", "shape", "frames"),
    [
        # Whisper and its kin have the features first, and twice as many moments as positions.
        ({"audio_config": {"num_mel_bins": 8, "max_source_positions": 5}}, (2, 8, 10), 10),
        ({"encoder_config": {"input_dim": 16}}, (2, 100, 16), 100),
        ({"encoder": {"feature_size": 6, "max_length": 40}}, (2, 40, 6), 40),
    ],
)
def test_sounds_are_as_the_nested_configuration_says(
    parts: dict[str, dict[str, int]], shape: tuple[int, ...], frames: int
) -> None:
    (made,) = sound(Listener(**parts))
    assert tuple(made["input_features"].shape) == shape
    assert tuple(made["input_features_mask"].shape) == (2, frames)
