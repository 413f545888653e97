"""Images and sounds to run a model on: read from files, or made up."""

import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exportcompat._extras import require
from exportcompat.registry import ExportCompatError

_SEED = 0
_SIZES = ((60, 80), (84, 56))
"""Height and width of the images that are made up."""
_SECONDS = (1.0, 0.7)
"""Of the sounds that are made up; models of sounds want some tenths at least."""
_PCM = {1: ("u1", 128.0, 128.0), 2: ("<i2", 0.0, 32768.0), 4: ("<i4", 0.0, 2147483648.0)}
"""Type, middle and range of samples, by their bytes."""


@dataclass(frozen=True)
class Given:
    """What the caller wants a model to be run on.

    Attributes:
        prompt: a text; None for made-up tokens.
        images: files.
        sounds: files.
        arrays: a file of NumPy with an array for each argument.
    """

    prompt: str | None = None
    images: Sequence[Path] = ()
    sounds: Sequence[Path] = ()
    arrays: Path | None = None


def check_given(given: Given) -> None:
    """Refuse what cannot be used, before anything is loaded.

    Raises:
        ExportCompatError: a file is not there, a prompt is empty, or arrays are given beside something else, or have
            values that nothing can be compared by.
    """
    if given.prompt is not None and not given.prompt.strip():
        raise ExportCompatError("the prompt is empty; give --prompt a text, or leave it out and tokens are made up")
    for option, paths in (("--image", given.images), ("--audio", given.sounds), ("--inputs", [given.arrays])):
        for path in paths:
            if path is not None and not path.is_file():
                raise ExportCompatError(f"{option} {path}: there is no such file")
    others = [given.prompt is not None, bool(given.images), bool(given.sounds)]
    if given.arrays is not None and any(others):
        raise ExportCompatError("--inputs has all arguments; leave out --prompt, --image and --audio")
    if given.arrays is not None:
        _check_finite(given.arrays)


def _check_finite(path: Path) -> None:
    numpy = require("numpy", "onnx")
    for name, array in _read_arrays(path).items():
        count = int((~numpy.isfinite(array)).sum()) if array.dtype.kind == "f" else 0
        if count:
            raise ExportCompatError(
                f"--inputs {path}: {count} of {array.size} values of {name!r} are infinite or no numbers, and nothing "
                "can be compared by them; give finite ones"
            )


def images(given: Given) -> list[Any]:
    """Return images as PIL has them: those of the files, or two of different sizes.

    Raises:
        ExportCompatError: a file is no image.
        MissingExtraError: pillow is not installed.
    """
    module = require("PIL.Image", "media")
    if given.images:
        return [_read_image(module, path) for path in given.images]
    return [module.fromarray(_picture(*size)) for size in _SIZES]


def _read_image(module: Any, path: Path) -> Any:
    try:
        with module.open(path) as image:
            return image.convert("RGB")
    except Exception as error:
        # pillow raises exceptions of several classes for what it cannot read.
        raise ExportCompatError(f"--image {path} is no image that pillow can read: {error}") from error


def _picture(height: int, width: int) -> Any:
    """Return a slope with noise, `(height, width, 3)`, uint8: neighbours are alike, as in a photograph."""
    numpy = require("numpy", "onnx")
    noise = numpy.random.default_rng(_SEED).integers(0, 64, (height, width, 3))
    slope = numpy.linspace(0, 191, height)[:, None, None] * numpy.linspace(0.3, 1, width)[None, :, None]
    return (slope + noise).astype("uint8")


def sounds(given: Given, rate: int) -> list[Any]:
    """Return sounds, `(samples,)`, float32, at `rate` samples a second: those of the files, or two of other lengths.

    Raises:
        ExportCompatError: a file is no sound that can be read here.
    """
    if given.sounds:
        return [_read_sound(path, rate) for path in given.sounds]
    return [tones(int(seconds * rate), rate) for seconds in _SECONDS]


def tones(samples: int, rate: int) -> Any:
    """Return three tones with noise, `(samples,)`, float32."""
    numpy = require("numpy", "onnx")
    random = numpy.random.default_rng(_SEED)
    time = numpy.arange(samples) / rate
    waves = sum(numpy.sin(2 * numpy.pi * pitch * time) for pitch in (220.0, 523.0, 1480.0))
    return (0.2 * waves + 0.02 * random.standard_normal(samples)).astype("float32")


def _read_sound(path: Path, rate: int) -> Any:
    """Return the mean of a file's channels at `rate`; the Python library reads WAV alone."""
    numpy = require("numpy", "onnx")
    try:
        with wave.open(str(path)) as file:
            kind, middle, span = _PCM[file.getsampwidth()]
            found = numpy.frombuffer(file.readframes(file.getnframes()), kind).astype("float32")
            found = ((found - middle) / span).reshape(-1, file.getnchannels()).mean(1)
            before = file.getframerate()
            if not len(found):
                raise ExportCompatError(f"--audio {path} has no samples; give a sound of some tenths of a second")
    except (wave.Error, EOFError, KeyError) as error:
        raise ExportCompatError(
            f"--audio {path} is no WAV file with samples of 8, 16 or 32 bits: {error}; convert it, such as with "
            f"ffmpeg -i {path.name} -ar {rate} -ac 1 -c:a pcm_s16le sound.wav"
        ) from error
    count = max(1, round(len(found) * rate / before))
    return numpy.interp(numpy.linspace(0, len(found) - 1, count), numpy.arange(len(found)), found).astype("float32")


def arrays(path: Path, known: Sequence[str]) -> dict[str, Any]:
    """Return the tensors of a file of NumPy, by argument.

    Raises:
        ExportCompatError: it is no such file, or has a name that the model does not take.
    """
    from exportcompat.registry import did_you_mean

    found = _read_arrays(path)
    for name in found:
        if name not in known:
            hint = did_you_mean(name, known) or f"; it takes {', '.join(known)}"
            raise ExportCompatError(f"--inputs {path} has {name!r}, which the model does not take{hint}")
    if not found:
        raise ExportCompatError(f"--inputs {path} has no array")
    return {name: _tensor(path, name, array) for name, array in found.items()}


def _read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of a file of NumPy by name.

    Raises:
        ExportCompatError: it is no such file.
    """
    numpy = require("numpy", "onnx")
    try:
        with numpy.load(path) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:
        # numpy says by several classes that a file is none of its own, or holds objects.
        raise ExportCompatError(
            f"--inputs {path} is no file of numpy.savez with an array for each argument: {error}"
        ) from error


def _tensor(path: Path, name: str, array: Any) -> Any:
    try:
        return require("torch", "torch").from_numpy(array)
    except TypeError as error:
        raise ExportCompatError(f"--inputs {path}: {name!r} cannot be a tensor: {error}") from error
