"""What people hand over besides tokens: floats for a model in a smaller dtype, embeddings, configurations per layer."""

from collections.abc import Callable
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
from exportcompat._sample_inputs import Given, InputMaker, Processors, Task, completed
from exportcompat._sample_inputs._made_inputs import image_argument, sound, sound_argument


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


def test_what_follows_from_tokens_is_made_up_where_it_is_asked_for() -> None:
    def forward(input_ids: Any, attention_mask: Any, token_type_ids: Any) -> None:
        """Take what is made up."""

    model = SimpleNamespace(forward=forward, config=SimpleNamespace(type_vocab_size=2))
    call = {"input_ids": torch.tensor([[5, 5, 5, 5]]), "attention_mask": torch.tensor([[0, 1, 1, 1]])}
    found = completed(model, call, ["input_ids", "attention_mask", "token_type_ids", "position_ids"])
    assert found.keys() == {"input_ids", "attention_mask", "token_type_ids"}
    assert found["token_type_ids"].tolist() == [[0, 0, 1, 1]]
    assert found["attention_mask"] is call["attention_mask"]
    assert completed(model, call, ["input_ids"]) == call
    model.config.type_vocab_size = 0
    assert "token_type_ids" not in completed(model, call, ["token_type_ids"])


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


def made_by(forward: Callable[..., None], task: str = "feature-extraction", **config: Any) -> list[dict[str, Any]]:
    """Return the calls that are made up for a model of a folder with nothing but weights."""
    model = SimpleNamespace(forward=forward, config=SimpleNamespace(**config))
    return InputMaker(model, Task(task, ""), Processors(None, "", {}), Given(), "a folder").make()


def of_text(input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> None:
    """Take a text."""


@pytest.mark.parametrize("end", [2, 50])
def test_a_text_that_is_classified_by_its_end_has_one(end: int) -> None:
    (call,) = made_by(of_text, "text-classification", vocab_size=99, eos_token_id=end, is_encoder_decoder=True)
    ends = call["input_ids"] == end
    assert ends.sum(1).tolist() == [1, 1] and bool(ends[:, -1].all())
    (call,) = made_by(of_text, "text-classification", vocab_size=99, eos_token_id=end, is_encoder_decoder=False)
    assert not bool((call["input_ids"] == end).any())


@pytest.mark.parametrize(
    ("task", "kinds", "is_taken"),
    [("fill-mask", 2, True), ("fill-mask", 1, False), ("text-generation-with-past", 2, False)],
)
def test_a_text_has_segments_where_the_model_has_kinds(task: str, kinds: int, is_taken: bool) -> None:
    (call,) = made_by(of_text, task, vocab_size=99, type_vocab_size=kinds)
    assert ("token_type_ids" in call) is is_taken


def of_series(past_values: Any) -> None:
    """Take a series."""


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ({}, (2, 12)),
        ({"num_input_channels": 1}, (2, 12, 1)),
        ({"input_size": 1, "lags_sequence": [1, 3]}, (2, 15)),
        ({"input_size": 2, "lags_sequence": [1, 3]}, (2, 15, 2)),
    ],
)
def test_a_series_has_the_channels_of_the_configuration(fields: dict[str, Any], shape: tuple[int, ...]) -> None:
    (call,) = made_by(of_series, context_length=12, **fields)
    assert tuple(call["past_values"].shape) == shape


def of_windows(input_features: Any, is_longer: Any = None) -> None:
    """Take sounds in parts."""


@pytest.mark.parametrize("fields", [{}, {"vision_config": None, "audio_config": None}])
def test_a_model_that_is_configured_without_encoders_takes_no_image_and_no_sound(fields: dict[str, Any]) -> None:
    def forward(input_ids: Any, pixel_values: Any = None, input_features: Any = None) -> None:
        pass

    model = SimpleNamespace(forward=forward, config=SimpleNamespace(**fields))
    assert image_argument(model) == ("" if fields else "pixel_values")
    assert sound_argument(model) == ("" if fields else "input_features")


def test_sounds_that_may_be_longer_come_in_parts() -> None:
    (call,) = made_by(of_windows, audio_config=Inner(num_mel_bins=8, spec_size=32))
    # A square of 32 by 32 has room for four rows of 32 moments.
    assert tuple(call["input_features"].shape) == (2, 1, 128, 8)


@pytest.mark.parametrize(
    ("files", "is_loaded"),
    [
        ({}, False),
        ({"tokenizer_config.json": '{"tokenizer_class": "BertTokenizer"}'}, False),
        ({"tokenizer_config.json": '{"tokenizer_class": "ByT5Tokenizer"}'}, True),
        ({"tokenizer_config.json": '{"auto_map": {}}'}, True),
        ({"tokenizer_config.json": "["}, False),
        ({"tokenizer.json": ""}, True),
        ({"spiece.model": ""}, True),
        ({"vocab.txt": ""}, True),
        ({"preprocessor_config.json": "{}"}, False),
    ],
)
def test_no_tokenizer_is_made_of_nothing(files: dict[str, str], is_loaded: bool, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    auto = SimpleNamespace(from_pretrained=lambda *_, **__: SimpleNamespace(tokenizer=True))
    classes = {
        "BertTokenizer": SimpleNamespace(vocab_files_names={"vocab_file": "vocab.txt"}),
        "ByT5Tokenizer": SimpleNamespace(vocab_files_names={}),
    }
    package = SimpleNamespace(AutoTokenizer=auto, AutoProcessor=auto, **classes)
    found = Processors(package, str(tmp_path), {})
    assert [found.tokenizer is not None, found.processor is not None] == [is_loaded, is_loaded]
    # What the hub has is not known here.
    assert Processors(package, "some/where", {}).tokenizer is not None


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
    """A configuration in another one, whose class says which lengths it knows."""

    def __init__(self, max_length: int | None = None, **fields: Any) -> None:
        super().__init__(max_length=max_length, **fields)

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


class Placed(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch comes from importorskip.
    """Counts positions from `first` on where it is given none."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def forward(self, input_ids: Any, position_ids: Any = None, past_key_values: Any = None) -> Any:
        past = past_key_values["key"]
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1])[None] + past.shape[2] + self.first
        keys = torch.cat([past, position_ids.expand_as(input_ids)[:, None, :, None].float()], 2)
        return {"logits": (input_ids + 10.0 * position_ids)[..., None], "past_key_values": {"key": keys}}


@pytest.mark.parametrize(("first", "names"), [(0, ["input_ids", "position_ids"]), (2, ["input_ids"])])
def test_positions_of_an_interface_are_those_that_the_model_assumes(first: int, names: list[str]) -> None:
    """Kosmos-2.5 counts from its token for padding on, and `generate` leaves that to it."""
    model, observer = Placed(first), InputObserver()
    with observer(model, store_n_calls=9):
        cache = {"key": torch.zeros(2, 1, 0, 1)}
        for length in (4, 1, 1):
            cache = model(torch.ones(2, length, dtype=torch.int64), past_key_values=cache)["past_key_values"]
        # To ask the model is no call, while it is watched, either.
        assert observer.interface()[0] == [*names, "past_key_values.key"] and len(observer) == 3
    later = InputObserver()
    with later(model):
        model(torch.ones(2, 1, dtype=torch.int64), past_key_values={"key": torch.zeros(2, 1, 5, 1)})
    assert "position_ids" in later.interface()[0]
