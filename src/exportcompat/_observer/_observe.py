"""Run a model so that an observer sees what varies."""

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

from exportcompat._extras import require
from exportcompat._verification import PAST_ARGUMENT
from exportcompat.patches.toolkit.cache_names import CACHES
from exportcompat.registry import ExportCompatError, NoCacheError

from ._embedded_tokens import EMBEDDINGS
from ._inner_model import inner_model
from ._observer import InputObserver, lengths_without_cache, says_no_cache
from ._without_cache import refused_where_asked

_STEPS = 4
"""Tokens that `generate` makes while it is observed: a prefill and some steps with a cache."""

_MORE = 5
"""Tokens that a text goes on with."""

_PRESENT = "present"
"""Begins the names of what a decoder returns for the next call."""

Inputs = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def observe(model: Any, inputs: Inputs, *, generate: bool | None = None) -> InputObserver:
    """Run a model on inputs and return the observer that has watched it.

    A model that generates is run for a few tokens. Another is run on each of the inputs; if there is only one and it
    is a text or a sound, also on that twice over, so that its length is seen to vary; and if it is texts with as many
    images, also with more of one of them, so that one knows whether their numbers have to agree.

    Where `generate` runs, tokens become int64, as those are that it makes.

    Args:
        model: an `nn.Module`.
        inputs: keyword arguments to run it with, one dict or several of different lengths.
        generate: run `model.generate`, so that there is a cache; None does so if the model can and the inputs hold
            neither a cache nor a text of the decoder.

    Raises:
        ExportCompatError: there are no inputs, or the model cannot generate.
        NoCacheError: it does so without its own `forward`, which takes no cache or does not return it.
    """
    calls, model = _calls(inputs), inner_model(model)
    observer = InputObserver()
    torch = require("torch", "torch")
    with observer(model, store_n_calls=max(3, 2 * len(calls))), torch.no_grad():
        if _generates(model, calls, generate):
            with _noting_parts(model) as parts:
                for call in calls:
                    _generate(model, call)
            if len(observer) == 0:
                raise NoCacheError(
                    _without_forward(model, parts),
                    "watch such a part with an InputObserver while the model generates, and export that",
                )
            _require_taken(model, observer)
            _require_presents(model, observer)
        else:
            _run_forward(model, calls)
    return observer


def _run_forward(model: Any, calls: list[dict[str, Any]]) -> None:
    for call in calls:
        model(**call)
    _run_longer(model, calls)
    _run_more(model, calls)


def observe_whole_texts(model: Any, inputs: Inputs, refusal: NoCacheError) -> InputObserver:
    """Run the `forward` of a model that generates, without its cache, and return the observer that has watched it.

    Args:
        model: an `nn.Module`.
        inputs: see `observe`.
        refusal: why there is no cache; the observer says it of every file.

    Raises:
        ExportCompatError: `forward` does not take the inputs either.
    """
    model = inner_model(model)
    known = inspect.signature(model.forward).parameters
    more = {"use_cache": False} if "use_cache" in known else {}
    try:
        observer = observe(model, [{**more, **call} for call in _calls(inputs)], generate=False)
    except Exception as error:
        # Models raise exceptions of any class for what they do not take.
        raise ExportCompatError(f"{refusal.reason}, and forward refuses the inputs: {error}") from error
    return says_no_cache(observer, refusal)


@contextmanager
def _noting_parts(model: Any) -> Iterator[list[str]]:
    """Give the list of the names of the parts of a model that are called meanwhile."""
    called: list[str] = []
    children = dict(model.named_children()) if hasattr(model, "named_children") else {}
    hooks = [
        child.register_forward_pre_hook(lambda *_, name=name: called.append(name)) for name, child in children.items()
    ]
    try:
        yield called
    finally:
        for hook in hooks:
            hook.remove()


def _without_forward(model: Any, parts: Sequence[str]) -> str:
    """Say which parts of a model its `generate` calls."""
    names = ", ".join(f"{name} ({parts.count(name)})" for name in dict.fromkeys(parts)) or "none of its parts"
    return f"{type(model).__name__}.generate never calls the model's forward; it calls {names}"


def _require_taken(model: Any, observer: InputObserver) -> None:
    """Refuse a model whose `forward` has no argument for the cache that `generate` hands to it."""
    lengths = lengths_without_cache(observer)
    if any(before > after == 1 for before, after in pairwise(lengths)):
        raise NoCacheError(
            f"{type(model).__name__}.forward has no argument for a cache by a name that is known, and `generate` hands "
            "it one token alone, so that the text before is lost in eager mode too",
            "let forward take `past_key_values` and use it",
        )


def _require_presents(model: Any, observer: InputObserver) -> None:
    """Refuse a model that writes to the cache it is given and returns none: its graph could not go on from itself."""
    taken, given = observer.interface()
    has_past = any(name.startswith(f"{PAST_ARGUMENT}.") for name in taken)
    if has_past and not any(name.startswith(_PRESENT) for name in given):
        told = f"{type(model).__name__} writes to the cache that `generate` hands to it, and does not return it"
        if getattr(getattr(model, "config", None), "is_decoder", None) is not False:
            raise NoCacheError(f"{told}; a graph cannot do so")
        # A mistake in the configuration: as it is, each token of the model sees the later ones.
        cause = "because its configuration has is_decoder=False: build the model with True"
        raise refused_where_asked(f"{told}, {cause}; a graph cannot do so")


Parts = Mapping[str, tuple[Any, InputObserver]]
"""The parts of an encoder-decoder by name, each with what was observed of it."""


def is_encoder_decoder(model: Any, inputs: Inputs, generate: bool | None = None) -> bool:
    """Say whether a model is an encoder-decoder that makes a text of its inputs, to be exported in two parts.

    Inputs that have a text for the decoder are for the whole model, unless `generate` is True.
    """
    if generate is False or not getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        return False
    calls = [inputs] if isinstance(inputs, Mapping) else inputs
    return _can_generate(model) and (bool(generate) or not _are_whole(calls))


def observe_encoder_decoder(model: Any, inputs: Inputs, refusal: NoCacheError | None = None) -> Parts:
    """Run `generate` of an encoder-decoder, and return its encoder and its decoder with what they were given.

    A text is also taken twice over, so that its length is seen to vary. Where the encoder is given embeddings that the
    model makes of tokens and images, as in Florence-2, what makes them belongs to it.

    Args:
        model: an encoder-decoder.
        inputs: see `observe`.
        refusal: why the decoder has no cache, and is given the whole text each time; None for one with a cache.

    Raises:
        ExportCompatError: there are no inputs.
    """
    from exportcompat._encoder_decoder import TextDecoder, WholeEncoder, WholeTextDecoder

    calls, has_cache = _calls(inputs), refusal is None
    encoder, decoder = model.get_encoder(), (TextDecoder if has_cache else WholeTextDecoder)(model)
    states, tokens = InputObserver(), InputObserver()
    torch = require("torch", "torch")
    with states(encoder, store_n_calls=2 * len(calls)), tokens(decoder, store_n_calls=_STEPS), torch.no_grad():
        for call in calls:
            _generate(model, call, use_cache=has_cache)
        _run_longer(lambda **call: _generate(model, call, use_cache=has_cache), calls)
    if len(states) == 0:
        raise ExportCompatError(
            f"{type(model).__name__}.generate did not call the encoder with the inputs {', '.join(calls[0])}; give "
            "what the encoder takes, such as input_ids, and no encoder_outputs"
        )
    if EMBEDDINGS in states.interface()[0] and not any(EMBEDDINGS in call for call in calls):
        encoder = WholeEncoder(model)
        states = observe(encoder, calls, generate=False)
    told = tokens if refusal is None else says_no_cache(tokens, refusal)
    return {"encoder": (encoder, states), "decoder": (decoder, told)}


def _calls(inputs: Inputs) -> list[dict[str, Any]]:
    check_inputs(inputs)
    return [dict(inputs)] if isinstance(inputs, Mapping) else [dict(item) for item in inputs]


def check_inputs(inputs: Inputs) -> None:
    """Refuse what are no keyword arguments of a model.

    Raises:
        ExportCompatError: there are none, or something else, such as a tensor, stands where they should.
    """
    calls: Any = [inputs] if isinstance(inputs, Mapping) else inputs
    others = (item for item in calls if not isinstance(item, Mapping)) if isinstance(calls, Sequence) else (calls,)
    for other in others:
        raise ExportCompatError(
            f"the inputs are, or hold, a {type(other).__name__}; give keyword arguments of the model, such as "
            "{'input_ids': tokens}, as a dict or several"
        )
    if not calls:
        raise ExportCompatError("there are no inputs; give keyword arguments of the model, as a dict or several")


def _can_generate(model: Any) -> bool:
    return callable(getattr(model, "generate", None)) and getattr(model, "can_generate", lambda: True)()


def runs_generate(model: Any, inputs: Inputs) -> bool:
    """Say whether a model is observed by `generate` where nobody says how."""
    return is_encoder_decoder(model, inputs) or _generates(model, _calls(inputs), None)


def _generates(model: Any, calls: list[dict[str, Any]], wanted: bool | None) -> bool:
    can = _can_generate(model)
    if wanted and not can:
        raise ExportCompatError(f"{type(model).__name__} cannot generate; pass generate=False")
    has_encoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return can and not has_encoder and not _are_whole(calls) if wanted is None else wanted


def _are_whole(calls: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether a call is one of `forward`: it has what `generate` makes itself, a text of the decoder or a cache."""
    return any(name in call for call in calls for name in ("decoder_input_ids", "labels", *CACHES))


def _generate(model: Any, call: dict[str, Any], *, use_cache: bool = True) -> None:
    # transformers would stop at the end-of-text token, sample, or do without a cache, if the configuration says so.
    settings = {"min_new_tokens": _STEPS, "do_sample": False, "use_cache": use_cache}
    fixed = settings if hasattr(model, "generation_config") else {}
    # A call of `forward` may say the same by the same names.
    model.generate(**{**_with_long_tokens(call), "max_new_tokens": _STEPS, **fixed})


def _with_long_tokens(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call whose tokens are int64, as those are that `generate` adds: a file takes one type for all calls."""
    tokens = ("input_ids", "decoder_input_ids")
    return {name: value.long() if name in tokens and hasattr(value, "long") else value for name, value in call.items()}


def _run_longer(model: Any, calls: list[dict[str, Any]]) -> None:
    """Run a model on a text or a sound twice over, if that is all there is to see how its length varies."""
    long = [name for name, value in calls[0].items() if _has_length(calls[0], value)]
    if len(calls) > 1 or not long:
        return
    twice: Any = require("torch", "torch").cat
    # Choices, `(batch, choices, length)`, vary in their number and in their length.
    for axis in range(1, min(calls[0][name].dim() for name in long)):
        longer = {name: twice([value, value], axis) if name in long else value for name, value in calls[0].items()}
        try:
            _run_either(model, longer, _with_more_at_the_end(calls[0], long, axis))
        except Exception as error:
            message = (
                f"the length of {', '.join(long)} is fixed in the graph: the model does not take twice of it ({error})"
            )
            warnings.warn(message, stacklevel=4)


def _run_either(model: Any, call: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Run a model on a call, and on the other one if there is one and the model refuses the first."""
    try:
        model(**call)
    except Exception:
        if not other:
            raise
        model(**other)


def _with_more_at_the_end(call: Mapping[str, Any], long: Sequence[str], axis: int) -> dict[str, Any]:
    """Return a call whose text goes on with its last token, for the places of images in it keep their number."""
    if len(long) == len(call):
        return {}
    torch = require("torch", "torch")
    ends = {name: call[name].narrow(axis, call[name].shape[axis] - 1, 1) for name in long}
    more = {name: torch.cat([call[name], *[end] * _MORE], axis) for name, end in ends.items()}
    return {**call, **more}


def _run_more(model: Any, calls: list[dict[str, Any]]) -> None:
    """Run a model that compares texts with images on more of one of them, if that is all there is to see."""
    images = calls[0].get("pixel_values")
    texts = [name for name, value in calls[0].items() if _has_length(calls[0], value)]
    if len(calls) > 1 or images is None or not texts or len(images) != len(calls[0][texts[0]]):
        return
    joined: Any = require("torch", "torch").cat
    for names in (["pixel_values"], texts):
        # Three times as many make it the richest call, and so the sample: two texts for each image, not one.
        more = {name: joined([value] * 3) if name in names else value for name, value in calls[0].items()}
        # Other models have one image for each text, and refuse this.
        with suppress(Exception):
            model(**more)
            return


def _has_length(call: Mapping[str, Any], value: Any) -> bool:
    """Say whether a value is tokens or samples, or has an item for each, as boxes of words do.

    Tokens and samples are `(batch, length)`, and tokens of several choices `(batch, choices, length)`.
    """
    names = ["input_ids", "decoder_input_ids", "input_values"]
    # The features of a sound, `(batch, frames, bins)`, have the length of their mask; those of Whisper have another.
    names += ["attention_mask"] if "input_features" in call else []
    known = [name for name in names if call.get(name) is not None]
    is_long = any(_is_long(name, call[name]) and _begins_like(value, call[name]) for name in known)
    return is_long or (value is call.get("attention_mask") and _masks_steps(call))


def _masks_steps(call: Mapping[str, Any]) -> bool:
    """Say whether a mask is of steps with several tokens each, `(batch, steps, tokens)`, as a sound has them."""
    tokens, mask = call.get("input_ids"), call.get("attention_mask")
    return mask is not None and tokens is not None and tokens.dim() == 3 and tokens.shape[:2] == mask.shape


def _is_long(name: str, value: Any) -> bool:
    return bool(value.dim() == 2 or (name == "input_ids" and value.dim() == 3))


def _begins_like(value: Any, other: Any) -> bool:
    return bool(getattr(value, "shape", ())[: other.dim()] == other.shape)
