"""A model whose cache no graph can have: exported for whole texts, and said so, or refused if a cache is wanted."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

torch = pytest.importorskip("torch", reason="what is observed are calls of a torch module")
pytest.importorskip("onnxruntime", reason="the files are run")

from exportcompat import ExportCompatError, InputObserver, NoCacheError, apply_patches, export
from exportcompat._verification import OnnxFile
from exportcompat.registry import installed_version

Module: Any = torch.nn.Module
Run = Callable[..., tuple[int, str, str]]

TOKENS = torch.ones(2, 3, dtype=torch.long)
SAYS = "the file has no cache and computes the whole text for each token: "


class Forgetful(Module):
    """Writes to the cache that it is given, and does not return it, as encoders do that are used as decoders."""

    def __init__(self, *, is_decoder: bool | None = None) -> None:
        super().__init__()
        self.config = SimpleNamespace(is_decoder=is_decoder)

    def forward(self, input_ids: Any, past_key_values: Any = None) -> Any:
        keys = input_ids[:, None, :, None].float()
        if past_key_values is not None:
            keys = past_key_values["key"] = torch.cat([past_key_values["key"], keys], 2)
        return {"logits": keys.sum((1, 2))[:, None].expand(-1, input_ids.shape[1], 4)}

    def generate(self, input_ids: Any, max_new_tokens: int) -> Any:
        cache = {"key": torch.zeros(2, 1, 1, 1)}
        for _ in range(max_new_tokens):
            self(input_ids=input_ids, past_key_values=cache)


class Summing(Module):
    """Adds its tokens to a cache; `way` is how it goes on.

    By the whole text ("cuts"), by one token alone ("steps"), or by any number in a batch of 2 alone ("pairs").
    """

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.config = way, SimpleNamespace()

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = True) -> Any:
        past = torch.zeros(len(input_ids), 1, 0, 1) if past_key_values is None else past_key_values["key"]
        if past.shape[2]:
            assert self.way != "steps" or input_ids.shape[1] == 1, "one token at a time"
            assert self.way != "pairs" or input_ids.shape[0] == 2, "two texts"
        new = input_ids[:, past.shape[2] :] if self.way == "cuts" else input_ids
        keys = torch.cat([past, new[:, None, :, None].float()], 2)
        logits = keys.sum((1, 2, 3))[:, None, None].expand(-1, new.shape[1], 4)
        return {"logits": logits, **({"past_key_values": {"key": keys}} if use_cache else {})}

    def generate(self, input_ids: Any, max_new_tokens: int) -> Any:
        cache = {"key": torch.zeros(2, 1, 0, 1)}
        for _ in range(max_new_tokens):
            made = self(input_ids=input_ids, past_key_values=cache)
            cache, token = made["past_key_values"], torch.ones(2, 1, dtype=torch.long)
            input_ids = torch.cat([input_ids, token], 1) if self.way == "cuts" else token


class Apart(Module):
    """Is given pixels in its first call, and what it has seen in the later ones, and takes exactly one of them."""

    def forward(self, input_ids: Any, pixels: Any = None, seen: Any = None, past_key_values: Any = None) -> Any:
        if (pixels is None) == (seen is None):
            raise ValueError("exactly one of pixels and seen")
        past = torch.zeros(len(input_ids), 1, 0, 1) if past_key_values is None else past_key_values["key"]
        keys, made = torch.cat([past, input_ids[:, None, :, None].float()], 2), pixels if seen is None else seen
        logits = (keys.sum((1, 2, 3)) + made.sum(1))[:, None, None].expand(-1, input_ids.shape[1], 4)
        return {"logits": logits} if past_key_values is None else {"logits": logits, "past_key_values": {"key": keys}}

    def generate(self, input_ids: Any, pixels: Any, max_new_tokens: int) -> Any:
        given, cache = {"pixels": pixels}, {"key": torch.zeros(2, 1, 0, 1)}
        for _ in range(max_new_tokens):
            cache = self(input_ids=input_ids, **given, past_key_values=cache)["past_key_values"]
            input_ids, given = torch.ones(2, 1, dtype=torch.long), {"seen": pixels}


class Captions(Module):
    """Writes about pixels by its parts, and never by its own `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.eye, self.mouth = torch.nn.Identity(), torch.nn.Identity()

    def forward(self, pixels: Any) -> Any:
        return pixels + 1

    def generate(self, pixels: Any, max_new_tokens: int) -> Any:
        seen = self.eye(pixels)
        return [self.mouth(seen) for _ in range(max_new_tokens)]


PIXELS = [{"pixels": torch.zeros(2, size)} for size in (3, 4)]
CASES = [
    (Forgetful(), {"input_ids": TOKENS}, "does not return it", "no setting gives it one"),
    (
        Summing("cuts"),
        {"input_ids": TOKENS},
        "(5 tokens) beside a cache of 4",
        "for a cache, observe calls that have new",
    ),
    (Summing("steps"), {"input_ids": TOKENS}, "AssertionError: one token at a time", "no setting gives it one"),
    (
        Apart(),
        {"input_ids": TOKENS, "pixels": torch.ones(2, 5)},
        "refuses seen of later calls beside pixels of the first one: ValueError: exactly one",
        "no setting gives it one",
    ),
    (Captions(), PIXELS, "calls eye (2), mouth (8)", "for a cache, watch such a part with an InputObserver"),
]


@pytest.mark.parametrize(("model", "inputs", "reason", "remedy"), CASES)
def test_is_exported_for_whole_texts_and_says_so(
    model: Any, inputs: Any, reason: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=SAYS):
        made = export(model, inputs, tmp_path / "model.onnx", about={"task": "text-generation-with-past"})
    assert made.no_cache.startswith(SAYS) and "\n" not in made.no_cache
    assert reason in made.no_cache and made.no_cache.partition(f"; {remedy}")[1]
    assert str(made).count(made.no_cache) == 1
    assert made.discrepancies is not None and made.discrepancies.success
    assert made.discrepancies.notes[0] == made.no_cache
    file = OnnxFile(made.path)
    assert file.metadata["exportcompat.no_cache"] == made.no_cache
    assert file.metadata["exportcompat.task"] == "text-generation"
    assert not any(name.startswith(("past", "present")) for name in [*file.inputs, *file.outputs])
    assert made.no_cache in str(export(model, inputs, tmp_path / "again.onnx", verify=False))


@pytest.mark.parametrize(("model", "inputs", "reason", "remedy"), CASES)
def test_is_refused_where_a_cache_is_asked_for(
    model: Any, inputs: Any, reason: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(NoCacheError) as caught:
        export(model, inputs, tmp_path, generate=True)
    assert reason in str(caught.value) and "Pass generate=False" in str(caught.value)
    assert ("for a cache" in remedy) == ("; for a cache, " in str(caught.value))
    with pytest.raises(NoCacheError):
        export(model, inputs, tmp_path, serve="cpu")
    assert list(tmp_path.iterdir()) == []


class Swallowing(Module):
    """Its `forward` has no name for the cache; `generate` hands it one token alone all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace()

    def forward(self, input_ids: Any, attention_mask: Any = None, **_: Any) -> Any:
        kept = input_ids if attention_mask is None else input_ids * attention_mask
        return {"logits": kept.cumsum(1)[:, :, None].expand(-1, -1, 4) + torch.arange(4.0)}

    def generate(self, input_ids: Any, max_new_tokens: int, **given: Any) -> Any:
        for index in range(max_new_tokens):
            self(input_ids=input_ids[:, -1:] if index else input_ids, **({} if index else given))


def test_a_model_that_has_no_argument_for_a_cache_is_exported_for_whole_texts(tmp_path: Path) -> None:
    """Without that its file had single tokens for texts, no mask, and was called right."""
    inputs = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}
    with pytest.warns(UserWarning, match="Swallowing.forward has no argument for a cache"):
        made = export(Swallowing(), inputs, tmp_path / "model.onnx")
    assert made.discrepancies is not None and made.discrepancies.success
    assert made.no_cache.startswith(SAYS) and "attention_mask" in OnnxFile(made.path).inputs
    with pytest.raises(NoCacheError, match="let forward take `past_key_values`"):
        export(Swallowing(), inputs, tmp_path / "other.onnx", generate=True)


class Given(Module):
    """Code of a checkpoint that leaves it to `generate` to make the first cache, and returns none without one."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace()

    def forward(self, input_ids: Any, past_key_values: Any = None, use_cache: bool = True) -> Any:
        keys = input_ids[:, None, :, None].float()
        if past_key_values is not None:
            keys = torch.cat([past_key_values["key"], keys], 2)
        made = {"logits": keys.cumsum(2)[:, 0, -input_ids.shape[1] :].expand(-1, -1, 4) + torch.arange(4.0)}
        return made if past_key_values is None else {**made, "past_key_values": {"key": keys}}

    def generate(self, input_ids: Any, max_new_tokens: int) -> Any:
        cache = {"key": torch.zeros(len(input_ids), 1, 0, 1)}
        for _ in range(max_new_tokens):
            cache = self(input_ids=input_ids, past_key_values=cache)["past_key_values"]
            input_ids = input_ids[:, -1:]


def test_eager_is_given_the_first_cache_where_code_does_not_make_one(tmp_path: Path) -> None:
    made = export(Given(), {"input_ids": TOKENS}, tmp_path / "model.onnx")
    assert made.discrepancies is not None and made.discrepancies.success and len(made.discrepancies) > 80
    assert "past_key_values.key" in OnnxFile(made.path).inputs


def test_calls_of_the_caller_keep_their_cache(tmp_path: Path) -> None:
    model, observer = Summing("steps"), InputObserver()
    with apply_patches(), observer(model):
        model.generate(TOKENS, 3)
    with pytest.raises(NoCacheError):
        export(model, observer, tmp_path)
    calls = [
        {"input_ids": TOKENS[:, :new], "past_key_values": {"key": torch.ones(2, 1, past, 1)}}
        for past, new in ((0, 3), (3, 1), (4, 1))
    ]
    with pytest.raises(NoCacheError):
        export(model, calls, tmp_path)


def test_any_other_failure_is_none_of_the_cache(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="AssertionError: two texts") as caught:
        export(Summing("pairs"), {"input_ids": TOKENS}, tmp_path)
    assert not isinstance(caught.value, NoCacheError)
    with pytest.raises(ExportCompatError, match="eye .*, and forward refuses the inputs: .*NoneType"):
        export(Captions(), {"pixels": None}, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_is_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportCompatError, match="is_decoder=False: build the model with True") as caught:
        export(Forgetful(is_decoder=False), {"input_ids": TOKENS}, tmp_path)
    assert not isinstance(caught.value, NoCacheError) and list(tmp_path.iterdir()) == []


def test_a_model_with_a_cache_says_nothing(tmp_path: Path) -> None:
    made = export(Summing(""), {"input_ids": TOKENS}, tmp_path)
    assert made.no_cache == ""
    assert not {"exportcompat.no_cache", "exportcompat.observed"} & OnnxFile(made.path).metadata.keys()


def one_at_a_time(model: Any) -> Any:
    """Return an encoder-decoder that goes on by one token alone, as ProphetNet does."""
    original = type(model).forward

    class Stepping(type(model)):  # type: ignore[misc]
        @functools.wraps(original)
        def forward(self, *args: Any, decoder_input_ids: Any = None, **kwargs: Any) -> Any:
            cache = kwargs.get("cache", kwargs.get("past_key_values"))
            if cache is not None and cache.get_seq_length():
                assert decoder_input_ids.shape[1] == 1, "one token at a time"
            return original(self, *args, decoder_input_ids=decoder_input_ids, **kwargs)

    # A decoder whose code stands elsewhere is taken for that of another model.
    Stepping.__module__ = type(model).__module__
    model.__class__ = Stepping
    return model


def test_an_encoder_decoder_is_an_encoder_and_a_decoder_of_whole_texts(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the model is of transformers")
    from exportcompat.matrix.cases._encoder_decoder_models import make_encoder_decoder

    model, inputs = one_at_a_time(make_encoder_decoder("T5")), {"input_ids": torch.arange(2, 10)[None]}
    with pytest.warns(UserWarning, match=SAYS):
        made = export(model, inputs, tmp_path)
    assert made.no_cache.startswith(f"{SAYS}the decoder of Stepping itself") and made.no_cache in str(made)
    assert made.discrepancies is not None and made.discrepancies.success
    assert {"encoder", "decoder"} <= {row.call.partition(":")[0] for row in made.discrepancies}
    file = OnnxFile(tmp_path / "decoder_model.onnx")
    assert (made.path, list(file.outputs)) == (tmp_path / "decoder_model.onnx", ["logits"])
    assert "exportcompat.no_cache" not in OnnxFile(tmp_path / "encoder_model.onnx").metadata
    with pytest.raises(NoCacheError, match="the decoder of Stepping itself"):
        export(model, inputs, tmp_path / "other", generate=True)
    assert not (tmp_path / "other").exists()


@pytest.fixture(scope="module")
def xlm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a model whose `generate` hands over the whole text each time."""
    pytest.importorskip("transformers", reason="the model is of transformers")
    from exportcompat.matrix.cases._catalogue import find_case

    found = installed_version("transformers")
    if found is not None and found < Version("5.0"):
        pytest.skip("to 4.57 XLM has no cache at all")
    folder = tmp_path_factory.mktemp("xlm") / "model"
    find_case("xlm").decoder().model.save_pretrained(folder)
    return folder


def test_the_command_says_it_and_verify_compares_whole_texts(xlm: Path, tmp_path: Path, run: Run) -> None:
    status, text, messages = run("export", xlm, tmp_path / "out", "--json")
    made = json.loads(text)
    assert (status, made["success"]) == (0, True)
    assert made["no_cache"].startswith(SAYS) and made["no_cache"] in messages
    status, text, _ = run("verify", tmp_path / "out" / "model.onnx")
    assert (status, made["no_cache"] in text) == (0, True)


def test_a_task_with_a_past_asks_for_a_cache(xlm: Path, tmp_path: Path, run: Run) -> None:
    status, _, messages = run("export", xlm, tmp_path / "out", "--task", "text-generation-with-past")
    assert status == 2 and "Pass generate=False" in messages and not (tmp_path / "out").exists()
