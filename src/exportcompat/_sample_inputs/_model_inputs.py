"""What a model is run on: given arrays, what its folder's processors make of images, sounds and texts, or made up."""

from collections.abc import Callable, Mapping
from typing import Any

from exportcompat._extras import require
from exportcompat._observer import first_line
from exportcompat.registry import ExportCompatError

from ._made_inputs import (
    image_argument,
    parameters,
    pixels,
    placeholder,
    segments,
    series,
    sound,
    sound_argument,
    text,
    tokens,
    two_segments,
)
from ._media import Given, arrays, images, sounds
from ._processors import Processors
from ._tasks import Task

Call = dict[str, Any]

_PROMPT = "What is in this?"
_AROUND = (("vision_start_token_id", "vision_end_token_id"), ("boi_token_id", "eoi_token_id"))


class InputMaker:
    """Makes the inputs of one model.

    Args:
        model: the model.
        task: what it is loaded for.
        processors: those of its folder.
        given: what the caller wants.
        source: what to call the model in a message.
        beside: tensors by argument, instead of what would be made up and beside it.
    """

    def __init__(
        self,
        model: Any,
        task: Task,
        processors: Processors,
        given: Given,
        source: str,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        self._model, self._task, self._given, self._source = model, task, given, source
        self._processors, self._beside = processors, dict(beside or {})
        self._names = parameters(model)
        self._image = image_argument(model)
        self._sound = sound_argument(model)
        self._has_text = "input_ids" in self._names

    def make(self) -> list[Call]:
        """Return keyword arguments for one call, or for two whose sizes differ.

        Raises:
            ExportCompatError: something was given that the model does not take, or nothing can be made up.
        """
        if self._given.arrays is not None:
            return [arrays(self._given.arrays, [name for name in self._names if name != "kwargs"])]
        self._check_given()
        made = self._together() or self._apart()
        constant = {"use_cache": False} if "use_cache" in self._names and not self._task.generates else {}
        return [{**call, **self._beside, **constant} for call in made]

    def make_text(self) -> Call:
        """Return keyword arguments for a text alone."""
        return self._text()

    def _check_given(self) -> None:
        given = self._given
        asked = (
            ("--prompt", given.prompt is not None, self._has_text),
            ("--image", given.images, self._image),
            ("--audio", given.sounds, self._sound),
        )
        for option, is_given, is_taken in asked:
            if is_given and not is_taken:
                kind = type(self._model).__name__
                raise ExportCompatError(f"{option}: {kind} of {self._source!r} takes {', '.join(self._names)}")

    def _together(self) -> list[Call]:
        """Return what a processor makes of a text with images or sounds; nothing if there is none that can."""
        if not self._has_text or not (self._image or self._sound):
            return []
        processor = self._processors.processor
        if processor is None:
            return []
        try:
            return [self._known(self._processed(processor))]
        except ExportCompatError:
            raise
        except Exception as error:
            # Processors want what is written nowhere, and raise exceptions of any class for what they do not like.
            self._processors.notes.append(
                f"the processor {type(processor).__name__} is not used: {first_line(error)}; parts are"
            )
            return []

    def _processed(self, processor: Any) -> Mapping[str, Any]:
        media: dict[str, Any] = {}
        kinds = []
        if self._image and hasattr(processor, "image_processor"):
            media["images"] = images(self._given)
            kinds.append("image")
        if self._sound and hasattr(processor, "feature_extractor") and ("image" not in kinds or self._given.sounds):
            rate = processor.feature_extractor.sampling_rate
            media["audio"], media["sampling_rate"] = sounds(self._given, rate), rate
            kinds.append("audio")
        if not self._task.generates or placeholder(self._model) is None:
            count = len(media.get("images") or media.get("audio") or [0])
            prompts = [self._given.prompt or _PROMPT] * count
            batch: Mapping[str, Any] = processor(text=prompts, **media, padding=True, return_tensors="pt")
            return batch
        # One text with one image, unless the caller has more of them.
        media = {
            name: value[: self._count(name)] if isinstance(value, list) else value for name, value in media.items()
        }
        counts = {kind: len(media["images" if kind == "image" else "audio"]) for kind in kinds}
        prompt = self._chat(processor, counts)
        one: Mapping[str, Any] = processor(text=[prompt], **media, return_tensors="pt")
        return one

    def _count(self, name: str) -> int:
        return max(1, len(self._given.images if name == "images" else self._given.sounds))

    def _chat(self, processor: Any, counts: Mapping[str, int]) -> str:
        prompt = self._given.prompt or _PROMPT
        if getattr(processor, "chat_template", None):
            content = [{"type": kind} for kind, count in counts.items() for _ in range(count)]
            message = {"role": "user", "content": [*content, {"type": "text", "text": prompt}]}
            return str(processor.apply_chat_template([message], add_generation_prompt=True))
        return "".join(self._marker(processor, kind) * count for kind, count in counts.items()) + prompt

    def _marker(self, processor: Any, kind: str) -> str:
        """Return the words that stand for an image or a sound in a prompt."""
        if kind == "image" and getattr(processor, "boi_token", None):
            return str(processor.boi_token)
        word = getattr(processor, f"{kind}_token", None)
        if word is None:
            word = processor.tokenizer.convert_ids_to_tokens(placeholder(self._model))
        config = self._model.config
        if kind == "image" and getattr(config, "vision_start_token_id", None) is not None:
            ends = [processor.tokenizer.convert_ids_to_tokens(getattr(config, name)) for name in _AROUND[0]]
            return f"{ends[0]}{word}{ends[1]}"
        return str(word)

    def _apart(self) -> list[Call]:
        """Return what the processors make one by one, and what is made up for those that are not there."""
        if "past_values" in self._names:
            return [series(self._model)]
        media = [self._known({**call, **self._beside}) for call in self._media()]
        if not self._has_text:
            return media
        if media and "input_ids" in self._beside:
            return [{**text(self._model, self._beside["input_ids"]), **media[0]}]
        # A text goes beside an image in a model that compares them, and around it in one that writes about it.
        if media and placeholder(self._model) is not None and (self._task.generates or self._owner(media[0])):
            return [self._with_placeholders(media[0])]
        words = self._text()
        return [{**words, **call} for call in media[:1]] or [words]

    def _media(self) -> list[Call]:
        has_nothing_else = not (self._image or self._sound or self._has_text) and self._beside
        if self._image in self._beside or self._sound in self._beside or has_nothing_else:
            return [{}]
        is_image = bool(self._image) and not (self._sound and self._given.sounds)
        if is_image:
            return self._pictures()
        return self._sounds() if self._sound else []

    def _pictures(self) -> list[Call]:
        processor = self._processors.image_processor
        if processor is None:
            self._refuse("--image", self._given.images, "image processor")
            # A vision encoder by itself takes images of any size.
            return [pixels(self._model, length) for length in ((2, 3) if "grid_thw" in self._names else (2,))]
        found = images(self._given)
        if self._has_text:
            return [dict(processor(images=found[: self._count("images")], return_tensors="pt"))]
        return self._differing(lambda image: processor(images=[image, image], return_tensors="pt"), found)

    def _sounds(self) -> list[Call]:
        extractor = self._processors.feature_extractor
        if extractor is None:
            self._refuse("--audio", self._given.sounds, "feature extractor")
            return sound(self._model)
        rate = extractor.sampling_rate
        make: Callable[[Any], Any] = lambda item: extractor(  # noqa: E731 (one use)
            [item, item], sampling_rate=rate, return_tensors="pt"
        )
        return self._differing(make, sounds(self._given, rate))

    def _differing(self, make: Callable[[Any], Any], items: list[Any]) -> list[Call]:
        """Return a call for each item, and one alone if their shapes are the same."""
        calls = [dict(make(item)) for item in items]
        shapes = {tuple((name, tuple(value.shape)) for name, value in call.items()) for call in calls}
        return calls if len(shapes) > 1 or self._given.images or self._given.sounds else calls[:1]

    def _refuse(self, option: str, files: Any, what: str) -> None:
        if files:
            notes = "".join(f" ({note})" for note in self._processors.notes)
            raise ExportCompatError(f"{self._source!r} has no {what} for {option}{notes}; give --inputs FILE.npz")

    def _text(self, batch: int | None = None) -> Call:
        tokenizer = self._processors.tokenizer
        if self._given.prompt is None:
            made = text(self._model, tokens(self._model, batch, is_ended=self._reads_end()))
            if self._has_segments(tokenizer):
                made["token_type_ids"] = two_segments(made["input_ids"])
            return self._choices(made)
        if tokenizer is None:
            raise ExportCompatError(
                f"{self._source!r} has no tokenizer for --prompt; leave it out, and tokens are made up"
            )
        found = self._known(tokenizer(self._given.prompt, return_tensors="pt"))
        if not found["input_ids"].numel():
            raise ExportCompatError(
                f"the tokenizer makes no token of the prompt {self._given.prompt!r}; give more text"
            )
        return self._choices(found)

    def _has_segments(self, tokenizer: Any) -> bool:
        """Say whether texts have `token_type_ids`: as the tokenizer has it, or, without one, where there are kinds."""
        if "token_type_ids" not in self._names:
            return False
        if tokenizer is not None:
            return "token_type_ids" in getattr(tokenizer, "model_input_names", ())
        return not self._task.generates and segments(self._model) > 1

    def _reads_end(self) -> bool:
        """Say whether the model classifies a text by the state of its end, as BART does."""
        is_whole = getattr(self._model.config, "is_encoder_decoder", False)
        return bool(is_whole) and self._task.name == "text-classification"

    def _choices(self, call: Call) -> Call:
        if self._task.name != "multiple-choice":
            return call
        return {name: value[:, None].repeat(1, 2, 1) for name, value in call.items()}

    def _with_placeholders(self, media: Call) -> Call:
        """Return a text that has a placeholder for each feature of an image or a sound, together with that."""
        torch = require("torch", "torch")
        words, config = self._text(1)["input_ids"][:1], self._model.config
        token, count = placeholder(self._model), self._features(media)
        found = [(getattr(config, a, None), getattr(config, b, None)) for a, b in _AROUND]
        first, last = next(((a, b) for a, b in found if a is not None and b is not None), (None, None))
        marks = [item for item in (first, *([token] * count), last) if item is not None]
        ids = torch.cat([torch.tensor([marks], dtype=torch.int64), words], 1)
        kinds = {name: (ids == token).long() for name in ("mm_token_type_ids", "token_type_ids")}
        more = {name: value for name, value in kinds.items() if name in self._names}
        return {**text(self._model, ids), **more, **media}

    def _features(self, media: Call) -> int:
        """Return how many features a model makes of an image or a sound.

        Raises:
            ExportCompatError: it does not say.
        """
        torch, kind, owner = require("torch", "torch"), self._kind(media), self._owner(media)
        width = getattr(self._model.config.get_text_config(), "hidden_size", None)
        if owner is None or not width:
            raise ExportCompatError(
                f"{type(self._model).__name__} does not say how many features it makes of an {kind}, so no text can be "
                "made for it; give --inputs FILE.npz, or a folder with its processor"
            )
        names = parameters_of(getattr(owner, f"get_{kind}_features"))
        with torch.no_grad():
            made = getattr(owner, f"get_{kind}_features")(
                **{name: item for name, item in media.items() if name in names}
            )
        states = [getattr(made, name, None) for name in ("pooler_output", "last_hidden_state")]
        made = next((item for item in states if item is not None), made)
        return _numbers(made) // int(width)

    def _kind(self, media: Call) -> str:
        return "image" if self._image in media else "audio"

    def _owner(self, media: Call) -> Any:
        """Return what makes features of images or sounds; None if the model does not let one have them.

        That of the inner model has names for its arguments; the outer one may pass on what it gets.
        """
        owners, name = (getattr(self._model, "model", None), self._model), f"get_{self._kind(media)}_features"
        return next((item for item in owners if hasattr(item, name)), None)

    def _known(self, call: Mapping[str, Any]) -> Call:
        return {name: value for name, value in call.items() if name in self._names and hasattr(value, "shape")}


def _numbers(made: Any) -> int:
    """Return how many numbers a tensor has, or those in a list of features of images.

    Releases before 5.0 return what is beside features in a tuple with them, as that has other dimensions.
    """
    if isinstance(made, (list, tuple)):
        kinds = [(type(item), getattr(item, "ndim", 0)) for item in made]
        return sum(_numbers(item) for item, kind in zip(made, kinds, strict=True) if kind == kinds[0])
    return int(made.numel()) if hasattr(made, "numel") else 0


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters."""
    import inspect

    return list(inspect.signature(function).parameters)


def facts(calls: list[Call]) -> str:
    """Return the shapes of a call in words."""
    return ", ".join(f"{name} {tuple(value.shape)}" for name, value in calls[0].items() if hasattr(value, "shape"))
