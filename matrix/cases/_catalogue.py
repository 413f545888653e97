"""The cases: reference models, each with what is special about its export."""

import fnmatch
import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import exportcompat
from exportcompat.registry import ExportCompatError

from ._causal_lm_models import (
    SETTINGS,
    exists,
    make_causal,
    make_chunks,
    make_looped,
    make_own_cache,
    make_pairs,
    make_recomputed,
    make_static,
    make_tiny_gpt,
)
from ._decoder import SEED, Decoder, HybridDecoder, Sample, SlidingDecoder
from ._deepseek_v4_model import has_compressed, make_compressed

if TYPE_CHECKING:
    from exportcompat._verification import Discrepancy

    from ._forward import Forward


def compare_decoder(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the calls that say "works" of a decoder; see `exportcompat._verification._schedules`."""
    from exportcompat._verification import compare, decoder_schedules

    return compare(path, make, decoder_schedules())


def compare_beyond(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the usual calls of a decoder, then calls of more than 64 tokens, the fixed chunk of some layers."""
    from exportcompat._verification import Schedule, compare, decoder_schedules

    return compare(path, make, [*decoder_schedules(), Schedule(3, (70, 1, 130, 2), 2)])


def compare_unpadded(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the usual calls of a decoder without padding, which eager cannot have in some releases."""
    from exportcompat._verification import compare, decoder_schedules

    return compare(path, make, [schedule for schedule in decoder_schedules() if not schedule.padding])


def compare_forward(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    """Run the calls of a model without a cache; see `_forward`."""
    from ._forward import compare_calls

    return compare_calls(path, make)


@dataclass(frozen=True)
class Case:
    """One reference model.

    Attributes:
        name: its name in results.
        title: what it is, for people.
        make: builds the decoder, or a `Forward` for a model without a cache.
        exists: says whether the installed transformers has the model.
        shown: part of the quickstart.
        exclude: ids of specs that are left out, for a user who does without them.
        around: makes a context in which the case is exported.
        compare: compares a file with eager, given what makes the model anew.
        write: writes the file, given the decoder, the path and the ids of the specs that are applied; None for plain
            `torch.onnx.export` with the decoder's own axes and names.
        is_captured: it goes by `torch.export`, so that a second export can be compared with the first.
        sources: files of this folder that make it, beside those that every case depends on.
    """

    name: str
    title: str
    make: Callable[[], Any]
    exists: Callable[[], bool] = lambda: True
    shown: bool = False
    exclude: tuple[str, ...] = ()
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    compare: "Callable[[Path, Callable[[], Any]], list[Discrepancy]]" = compare_decoder
    write: Callable[[Any, Path, Collection[str]], None] | None = None
    is_captured: bool = True
    sources: tuple[str, ...] = ()

    def decoder(self) -> Any:
        """Build the model, the same one each time, in evaluation mode."""
        import torch

        torch.manual_seed(SEED)
        decoder = self.make()
        decoder.model.eval()
        return decoder


def _has_registration() -> bool:
    """Say whether the installed transformers can register `DynamicCache`, or has done so when it was imported."""
    import transformers.cache_utils as caches
    from torch.utils._pytree import SUPPORTED_NODES

    return caches.DynamicCache in SUPPORTED_NODES or _registration() is not None


def _slides_without_counting() -> bool:
    """Say whether layers of a fixed size that slide go by tensors alone; to 4.55 they do."""
    import transformers.cache_utils as caches

    return hasattr(caches, "HybridCache") and not hasattr(caches, "DynamicSlidingWindowLayer")


def _has_experts_interface() -> bool:
    """Say whether a model can be asked how it runs its experts; from 5.0 on it can."""
    return importlib.util.find_spec("transformers.integrations.moe") is not None


def _has_chunk_scan(name: str, package: str) -> bool:
    """Say whether a model of Mamba2 layers has its scan as a function; before, eager is wrong beyond one chunk."""
    module = f"transformers.models.{package}.modeling_{package}"
    return exists(name) and hasattr(importlib.import_module(module), "mamba2_chunk_scan")


def _make_old_name(name: str) -> Decoder:
    from ._old_cache_name import make_old_name

    return make_old_name(name)


def _has_old_name() -> bool:
    from ._old_cache_name import has_old_name

    return has_old_name()


def _registration() -> Callable[[], None] | None:
    try:
        executorch = importlib.import_module("transformers.integrations.executorch")
    except ImportError:
        # The module is younger than 4.44.
        return None
    return getattr(executorch, "register_dynamic_cache_export_support", None)


@contextmanager
def _official_registration() -> Iterator[None]:
    """Let transformers register `DynamicCache` as a pytree node, and take that back afterwards."""
    from exportcompat.registry import parse_target

    (slot,) = parse_target("pytree(transformers.cache_utils:DynamicCache)", "official").slots(())
    before = slot.read()
    register = _registration()
    if register is None:
        # Releases to 4.55 register the class when they are imported.
        yield
        return
    register()
    try:
        yield
    finally:
        slot.restore(before)


def _has_experts_on_hit(name: str) -> bool:
    """Say whether a model has its experts in a class, which 5.0 has introduced; before, tokens are picked by a mask."""
    module = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    return any(item.endswith("Experts") for item in vars(module))


def _make_text_decoder(name: str) -> Decoder:
    from ._encoder_decoder_models import make_text_decoder

    return make_text_decoder(name)


def _make_joined_decoder(name: str) -> Decoder:
    from ._composite_models import make_joined_decoder

    return make_joined_decoder(name)


def _make_states_encoder(name: str) -> "Forward":
    from ._encoder_decoder_models import make_states_encoder

    return make_states_encoder(name)


def _make_classes(name: str) -> "Forward":
    from ._sequence_classifiers import make_classes

    return make_classes(name)


def _package(name: str) -> str:
    """Return the path of a module of the package."""
    return str(Path(exportcompat.__path__[0]) / f"{name}.py")


_PAIR = tuple(
    map(_package, ("_encoder_decoder/_text_decoder", "_encoder_decoder/_composite", "_encoder_decoder/_encoder_mask"))
)
"""The modules in which the decoder of an encoder-decoder is exported."""

_JOINED = {
    "trocr": "TrOCR joined with DeiT",
    "gpt2": "GPT-2 joined with ViT, whose states have another size",
    "bert": "BERT joined with BERT",
}
"""Titles of two models that were joined, by the decoder."""


_PAIRS = {
    "whisper": ("Whisper", "Whisper"),
    "t5": ("T5", "T5"),
    "bart": ("BART", "Bart"),
    "marian": ("Marian", "Marian"),
}
_ROUTED = {
    "switch_transformers": ("Switch Transformers", "SwitchTransformers"),
    "nllb_moe": ("NLLB-MoE", "NllbMoe"),
}
"""Title and prefix of the classes of encoder-decoders, by their module in transformers."""


def _pairs() -> Iterator[Case]:
    """Yield the decoder and the encoder of each encoder-decoder; of some the decoder alone."""
    for name, (title, prefix) in _PAIRS.items():
        yield _pair_case(name, f"{title}, decoder with cross-attention", prefix, _has_model)
        make = partial(_make_states_encoder, prefix)
        yield _forward_case(
            f"{name}_encoder", f"{title}, encoder", make, "_encoder_decoder_models.py", "_encoder_models.py"
        )
    for name in ("bart", "t5"):
        title, make = f"{_PAIRS[name][0]}, classes of texts", partial(_make_classes, _PAIRS[name][1])
        yield _forward_case(
            f"{name}_classes",
            title,
            make,
            "_sequence_classifiers.py",
            "_encoder_decoder_models.py",
            "_encoder_models.py",
        )
    for name, (title, prefix) in _ROUTED.items():
        yield _pair_case(name, f"{title}, decoder with cross-attention, 4 experts", prefix, _has_experts_on_hit)
    title = "Speech2Text, decoder with cross-attention, padded sounds"
    yield _pair_case("speech_to_text", title, "Speech2Text", _has_model)
    sources = ("_composite_models.py", "_encoder_decoder_models.py", *_PAIR)
    for name, what in _JOINED.items():
        title = f"{what}, decoder with cross-attention"
        yield Case(f"joined_{name}", title, partial(_make_joined_decoder, name), sources=sources)


def _pair_case(name: str, title: str, prefix: str, exists: Callable[[str], bool]) -> Case:
    make, sources = partial(_make_text_decoder, prefix), ("_encoder_decoder_models.py", *_PAIR)
    return Case(f"{name}_decoder", title, make, partial(exists, name), sources=sources)


def _make_forward(module: str, name: str) -> "Forward":
    """Build a model with `make_<name>` of a module of the matrix, which imports torch."""
    made: Forward = getattr(importlib.import_module(f"{__package__}.{module}"), f"make_{name}")()
    return made


def _encoders() -> Iterator[Case]:
    """Yield the encoders of texts, images and sounds."""
    titles = {
        "bert": "BERT",
        "modernbert": "ModernBERT, every second layer with a window",
        "vit": "ViT, images of any size",
        "clip": "CLIP, texts and images of any size",
        "siglip2": "SigLIP 2, images as patches, each of its own size",
        "wav2vec2": "wav2vec 2.0, sounds of several lengths",
    }
    for name, title in titles.items():
        exists = partial(_has_model, name) if name != "clip" else _has_clip_of_any_size
        yield _forward_case(
            name, title, partial(_make_forward, "_encoder_models", name), "_encoder_models.py", exists=exists
        )
    make, exists = partial(_make_forward, "_vits_model", "vits"), partial(_has_model, "vits")
    files: tuple[str, ...] = ("_encoder_models.py", "_vits_model.py")
    yield _forward_case("vits", "VITS, texts of several lengths", make, *files, exists=exists)
    make, exists = partial(_make_forward, "_deberta_model", "deberta_v2"), partial(_has_model, "deberta_v2")
    title, files = "DeBERTa-v2, buckets of distances", ("_encoder_models.py", "_deberta_model.py")
    yield _forward_case("deberta_v2", title, make, *files, exists=exists)
    files = ("_encoder_models.py", "_audio_encoder_models.py")
    for name, title in {"sew": "SEW, odd and even lengths", "sew_d": "SEW-D, odd and even lengths"}.items():
        make, exists = partial(_make_forward, "_audio_encoder_models", name), partial(_has_model, name)
        yield _forward_case(name, title, make, *files, exists=exists)
    files = ("_encoder_models.py", "_vision_encoder_models.py")
    for name, title in _SIZED.items():
        yield _sized_case("_vision_encoder_models", name, title, *files)
    for name, title in {"mobilevit": "MobileViT", "beit": "BEiT, relative positions"}.items():
        yield _sized_case("_resized_encoder_models", name, title, *files, "_resized_encoder_models.py")
    make, exists = partial(_make_forward, "_beit_called_model", "beit_called"), partial(_has_model, "beit")
    title = "BEiT, relative positions, called before it is exported"
    yield _forward_case(
        "beit_called", title, make, *files, "_resized_encoder_models.py", "_beit_called_model.py", exists=exists
    )


_SIZED = {"swin": "Swin", "swinv2": "Swin v2", "donut": "Donut's encoder", "focalnet": "FocalNet", "rt_detr": "RT-DETR"}


def _sized_case(module: str, name: str, title: str, *files: str) -> Case:
    make, has_model = partial(_make_forward, module, name), partial(_has_model, name)
    return _forward_case(name, f"{title}, images of several sizes", make, *files, exists=has_model)


def _has_model(name: str) -> bool:
    """Say whether the installed transformers has a folder of this model."""
    name = f"transformers.models.{name}"
    # A folder that has been imported has no `__spec__` in some releases, and then `find_spec` raises.
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _has_clip_of_any_size() -> bool:
    """Say whether CLIP takes images of other sizes than it has learnt from; it does from 4.46 on."""
    clip = importlib.import_module("transformers.models.clip.modeling_clip")
    return "interpolate_pos_encoding" in signature(clip.CLIPModel.forward).parameters


def _forward_case(name: str, title: str, make: Callable[[], "Forward"], *files: str, **more: Any) -> Case:
    return Case(name, title, make, compare=compare_forward, sources=("_forward.py", *files), **more)


def _compare_generated(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    from ._qwen_vl_models import compare_generated

    return compare_generated(path, make)


_REFUSALS = ("_qwen_vl_models.py", "_refusals.py")


def _compare_refusals(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    from ._refusals import compare_refusals

    return compare_refusals(path, make)


_TOWERS = {"qwen2_vl": "Qwen2-VL", "qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}
_COPIES = {
    "qwen2_5_omni": "Qwen2.5-Omni",
    "qwen3_vl_moe": "Qwen3-VL-MoE",
    "qwen3_omni_moe": "Qwen3-Omni-MoE",
    "qwen3_5": "Qwen3.5",
    "qwen3_5_moe": "Qwen3.5-MoE",
    "glm4v": "GLM-4V",
    "glm4v_moe": "GLM-4V-MoE",
    "glm_ocr": "GLM-OCR",
    "ernie4_5_vl_moe": "ERNIE 4.5 VL",
}
"""Models with a vision tower like those of Qwen-VL; `_qwen_vl_copies` makes them."""


_WHOLE_COPIES = ("qwen3_vl_moe", "qwen3_5", "glm4v")


def _make_whole_copy(name: str) -> "Forward":
    from ._qwen_vl_copies import make_whole_copy

    return make_whole_copy(name)


def _make_video(name: str) -> "Forward":
    from ._qwen_vl_video_models import make_video

    return make_video(name)


def _make_copy(name: str) -> "Forward":
    from ._qwen_vl_copies import make_copy

    return make_copy(name)


def _towers() -> Iterator[Case]:
    """Yield the vision towers of Qwen-VL, and models with one."""
    for name, title in _TOWERS.items():
        make, exists = partial(_make_forward, "_qwen_vl_models", name), partial(_has_model, name)
        yield _forward_case(f"{name}_vision", f"{title}, vision tower", make, "_qwen_vl_models.py", exists=exists)
    for name, title in _TOWERS.items():
        make, exists = partial(_make_forward, "_qwen_vl_models", f"{name}_whole"), partial(_has_model, name)
        yield _forward_case(name, f"{title}, images and text", make, "_qwen_vl_models.py", exists=exists)
    for name, title in _TOWERS.items():
        make, exists = partial(_make_forward, "_qwen_vl_models", f"{name}_whole"), partial(_has_model, name)
        what, sources = f"{title}, texts that do not fit the images are refused", ("_forward.py", *_REFUSALS)
        yield Case(f"{name}_refused", what, make, exists, compare=_compare_refusals, sources=sources)
    make, exists = partial(_make_forward, "_qwen_vl_flat_model", "qwen2_vl_flat"), partial(_has_model, "qwen2_vl")
    title = "Qwen2-VL, images and text, from a configuration of one level"
    yield _forward_case("qwen2_vl_flat", title, make, "_qwen_vl_models.py", "_qwen_vl_flat_model.py", exists=exists)
    for name, title in _TOWERS.items():
        make, exists = partial(_make_video, name), partial(_has_model, name)
        files = ("_qwen_vl_models.py", "_qwen_vl_video_models.py")
        yield _forward_case(f"{name}_video", f"{title}, images, videos and text", make, *files, exists=exists)
    files = ("_qwen_vl_models.py", "_qwen_vl_copies.py")
    for name, title in _COPIES.items():
        make, exists = partial(_make_copy, name), partial(_has_model, name)
        yield _forward_case(f"{name}_vision", f"{title}, vision tower", make, *files, exists=exists)
    for name in _WHOLE_COPIES:
        make, exists = partial(_make_whole_copy, name), partial(_has_model, name)
        yield _forward_case(name, f"{_COPIES[name]}, images and text", make, *files, exists=exists)
    yield Case(
        "qwen2_5_vl_generate",
        "Qwen2.5-VL, images and text with a cache",
        partial(_make_forward, "_qwen_vl_models", "qwen2_5_vl_generate"),
        partial(_has_model, "qwen2_5_vl"),
        compare=_compare_generated,
        sources=("_forward.py", "_qwen_vl_models.py"),
    )


def _make_media(name: str) -> Any:
    from ._multimodal_models import make_media

    return make_media(name)


def _has_media(name: str) -> bool:
    from ._multimodal_models import exists

    return exists(name)


def _compare_media(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    from ._multimodal_models import compare_media

    return compare_media(path, make)


def _with_media() -> Iterator[Case]:
    """Yield the models that see images or hear sounds, each as one graph for all of its calls."""
    titles = {
        "gemma3_image": "Gemma3 with images, window 8",
        "idefics3": "Idefics3",
        "llava": "LLaVA",
        "paligemma": "PaliGemma",
        "qwen2_audio": "Qwen2-Audio",
        "smolvlm": "SmolVLM",
        "llava_pixtral": "LLaVA with Pixtral's tower, images of their own sizes",
        "mistral3": "Mistral 3, images of their own sizes",
        "lighton_ocr": "LightOnOCR, images of their own sizes",
        "vipllava": "VipLLaVA",
        "aya_vision": "Aya Vision, window 8",
        "cohere2_vision": "Cohere2 Vision, window 8",
        "internvl": "InternVL",
        "idefics2": "Idefics2",
        "deepseek_vl": "DeepSeek-VL",
        "llava_next": "LLaVA-NeXT, images in tiles",
        "llava_onevision": "LLaVA-OneVision, images in tiles",
        "llava_next_video": "LLaVA-NeXT-Video, images in tiles",
        "llava_next_video_frames": "LLaVA-NeXT-Video with videos",
        "llava_onevision_video": "LLaVA-OneVision with videos",
        "video_llava": "Video-LLaVA with videos",
        "ovis2": "Ovis2",
        "voxtral": "Voxtral",
        "gemma4_image": "Gemma 4 with images of their own sizes, window 8",
        "lfm2_vl": "LFM2-VL, images of their own sizes",
    }
    for name, title in titles.items():
        make, has = partial(_make_media, name), partial(_has_media, name)
        yield Case(name, title, make, has, compare=_compare_media, sources=("_multimodal_models.py",))


def _write_whole(subject: Any, path: Path, applied: Collection[str]) -> None:
    from ._by_export import export_whole

    export_whole(subject, path, applied)


def _compare_whole(path: Path, make: Callable[[], Any]) -> "list[Discrepancy]":
    from ._by_export import compare_whole

    return compare_whole(path, make)


_WAY = (
    *(f"_exporter/{name}" for name in ("_export", "_onnx_program", "_steps")),
    *(f"_observer/{name}" for name in ("_alignment", "_dynamic_axes", "_eager_decoder", "_growing_cache", "_observe")),
    *(f"_observer/{name}" for name in ("_observer", "_replay", "_export_sample", "_text_only_decoder", "_tree")),
)
"""The modules of the package that `export` goes through, beside those that every result depends on."""

CHUNKED = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid", "kimi_linear")
"""Models with layers that go through a text in chunks of 64 tokens, which no configuration makes less."""

OWN_CACHES = (*CHUNKED, "falcon_h1", "lfm2", "lfm2_moe", "minimax", "nemotron_h", "zamba2")
"""Models that have a cache of a class of their own in some releases, of which some need to be told the batch."""
_MAKERS = {"nemotron": make_recomputed, **dict.fromkeys(OWN_CACHES, make_own_cache)}

_SHOWN = ("llama", "mistral_window", "gemma2_window", "phi3_longrope", "llama_dynamic")
EAGER = "_eager"
"""What is added to the name of a case whose model has the attention implementation `eager`."""


def _models() -> Iterator[Case]:
    """Yield each model with the default attention (sdpa where the release has it), then with eager attention."""
    for suffix, attention, note in (("", None, ""), (EAGER, "eager", ", eager attention")):
        for name, (title, _, _) in SETTINGS.items():
            make = partial(_MAKERS.get(name, make_causal), name, attention)
            is_shown = name in _SHOWN and not suffix
            compare = compare_beyond if name in CHUNKED else compare_decoder
            yield Case(name + suffix, title + note, make, partial(exists, name), is_shown, compare=compare)


_WHOLE = {
    "llama": "keys and values",
    "gemma2_window": "keys and values, of which some slide",
    "phi3_longrope": "a rope that depends on the length",
    "mamba": "states alone",
    "jamba": "states, and keys and values",
    "bert": "no cache",
    "llava": "images, and keys and values",
    "qwen2_5_vl": "images of their own sizes, and keys and values",
}
"""Models that stand for what `export` has to find out of a model."""


def _by_export(case: Case, what: str) -> Case:
    """Return a case that goes by `exportcompat.export`."""
    return replace(
        case,
        name=f"{case.name}_export",
        title=f"{case.title}, by `export`: {what}",
        shown=False,
        compare=_compare_whole,
        write=_write_whole,
        sources=(*case.sources, "_by_export.py", *map(_package, _WAY)),
    )


def _write_script(decoder: Any, path: Path, applied: Collection[str]) -> None:
    from ._by_torchscript import export_script

    export_script(decoder, path, applied)


_SCRIPTED = (
    *("llama", "llama_dynamic", "phi3_longrope", "mistral_window"),
    *("gemma2_window", "mixtral", "deepseek_v3", "gpt_oss"),
)
"""Models that stand for what patches do while `torch.jit.trace` records: ropes, windows, masks, experts."""


def _by_script(case: Case) -> Case:
    """Return a case that goes by the TorchScript exporter."""
    return replace(
        case,
        name=f"{case.name}_script",
        title=f"{case.title}, by the TorchScript exporter",
        shown=False,
        write=_write_script,
        is_captured=False,
        sources=(*case.sources, "_by_torchscript.py"),
    )


_CHUNKS = (
    ("bamba", "bamba", "Bamba", "mamba_chunk_size"),
    ("falcon_h1", "falcon_h1", "Falcon-H1", "mamba_chunk_size"),
    ("granite_hybrid", "granitemoehybrid", "Granite MoE hybrid", "mamba_chunk_size"),
    ("mamba2", "mamba2", "Mamba2", "chunk_size"),
    ("nemotron_h", "nemotron_h", "Nemotron-H", "chunk_size"),
    ("zamba2", "zamba2", "Zamba2", "chunk_size"),
)
"""Models whose scan goes by chunks: case, package, title, and what their configuration calls the tokens of one."""

_BASES = (
    Case("tiny_gpt", "tiny GPT (plain torch)", make_tiny_gpt, shown=True),
    *_models(),
    Case("llama_static", "Llama, cache of fixed size", partial(make_static, "llama")),
    Case(
        "mistral_ring",
        "Mistral, cache of fixed size for a window of 64",
        partial(make_static, "mistral", SlidingDecoder, sliding_window=64),
        _slides_without_counting,
    ),
    Case(
        "gemma2_hybrid",
        "Gemma2, cache of fixed size, every second layer for a window of 64",
        partial(make_static, "gemma2_window", HybridDecoder, sliding_window=64),
        _slides_without_counting,
    ),
    Case("mixtral_loop", "Mixtral, experts in a loop", partial(make_looped, "mixtral"), _has_experts_interface),
    Case("llama_pairs", "Llama, cache filled by a wrapper", partial(make_pairs, "llama")),
    Case(
        "llama_official",
        "Llama, with transformers' own registration",
        partial(make_causal, "llama"),
        _has_registration,
        exclude=("dynamic-cache-pytree",),
        around=_official_registration,
    ),
    Case(
        "lfm2_unpadded",
        "LFM2, calls without padding",
        partial(make_own_cache, "lfm2"),
        partial(exists, "lfm2"),
        compare=compare_unpadded,
    ),
    Case(
        "deepseek_v4",
        "DeepSeek-V4, windows of 2 and 3 tokens, 4 experts, calls without padding",
        make_compressed,
        has_compressed,
        compare=compare_unpadded,
        sources=("_deepseek_v4_model.py",),
    ),
    *(
        Case(
            f"{name}_chunks",
            f"{title}, chunks of 64",
            partial(make_chunks, name, chunk),
            partial(_has_chunk_scan, name, package),
            compare=compare_beyond,
        )
        for name, package, title, chunk in _CHUNKS
    ),
    *(
        Case(
            f"{name}_old_name",
            f"{title}, its cache by the name that it had to 5.23",
            partial(_make_old_name, name),
            _has_old_name,
            sources=("_old_cache_name.py",),
        )
        for name, title in (("llama", "Llama"), ("mamba", "Mamba"))
    ),
    *_pairs(),
    *_encoders(),
    *_towers(),
    *_with_media(),
    Case("stateful_gpt", "tiny GPT that stores a tensor", partial(make_tiny_gpt, "stateful")),
    Case("buffered_gpt", "tiny GPT with a buffer that is a parameter", partial(make_tiny_gpt, "buffered")),
    Case("open_gpt", "tiny GPT that takes its cache through **kwargs", partial(make_tiny_gpt, "open")),
    Case("squeezed_gpt", "tiny GPT that squeezes an axis that is not 1", partial(make_tiny_gpt, "squeezed")),
    Case("subtracting_gpt", "tiny GPT that subtracts integers from a number", partial(make_tiny_gpt, "subtracting")),
    Case("checking_gpt", "tiny GPT that checks the elements of a tensor", partial(make_tiny_gpt, "checking")),
    Case("vmap_gpt", "tiny GPT, mask by vmap", partial(make_tiny_gpt, "vmap")),
    Case(
        "offset_gpt",
        "tiny GPT that adds an integer to a weight",
        partial(_make_forward, "_toy_gpt_offset", "offset_gpt"),
        sources=("_toy_gpt_offset.py",),
    ),
    Case(
        "choosing_gpt",
        "tiny GPT that chooses between masks",
        partial(_make_forward, "_toy_gpt_choosing", "choosing_gpt"),
        sources=("_toy_gpt_choosing.py",),
    ),
    Case(
        "hooking_gpt",
        "tiny GPT that installs a hook",
        partial(_make_forward, "_toy_gpt_hooking", "hooking_gpt"),
        sources=("_toy_gpt_hooking.py",),
    ),
)
_ALL = (
    *_BASES,
    *(_by_export(case, _WHOLE[case.name]) for case in _BASES if case.name in _WHOLE),
    *(_by_script(case) for case in _BASES if case.name in _SCRIPTED),
)
CASES: Mapping[str, Case] = {case.name: case for case in _ALL}


def find_case(name: str) -> Case:
    """Return a case.

    Raises:
        ExportCompatError: there is no case of that name; the message lists them.
    """
    if name not in CASES:
        raise ExportCompatError(f"there is no case {name!r}; cases: {', '.join(CASES)}")
    return CASES[name]


def parse_proof(text: str) -> tuple[Case, Sample]:
    """Parse the name of a proof: a case, and a sample behind a colon where it is not the usual one.

    Raises:
        ExportCompatError: the case or the sample does not exist.
    """
    name, _, sample = text.partition(":")
    return find_case(name), Sample.parse(sample) if sample else Sample()


def chosen(patterns: Iterable[str]) -> list[Case]:
    """Return the cases that match a pattern.

    Raises:
        ExportCompatError: a pattern matches no case.
    """
    patterns = list(patterns) or ["*"]
    for pattern in patterns:
        if not fnmatch.filter(CASES, pattern):
            raise ExportCompatError(f"no case matches {pattern!r}; cases: {', '.join(CASES)}")
    return [case for case in CASES.values() if any(fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]
