"""Encoder-decoders: the decoder with cross-attention and the encoder, each by itself, and two models in one."""

from ._case import Call, Case, call, has_model
from .encoders import forward_case

_MODELS = "_encoder_decoder_models"


def _decoder(name: str, title: str, prefix: str, exists: Call, *, everywhere: bool = False) -> Case:
    """Return the case of a decoder; `prefix` is that of the model's classes."""
    make = call(f"{_MODELS}:make_text_decoder", prefix)
    return Case(f"{name}_decoder", f"{title}, decoder with cross-attention", make, exists, everywhere=everywhere)


def _encoder(name: str, title: str, prefix: str) -> Case:
    """Return the case of an encoder."""
    make = call(f"{_MODELS}:make_states_encoder", prefix)
    return forward_case(f"{name}_encoder", f"{title}, encoder", make, everywhere=True)


def _classes(name: str, title: str, prefix: str) -> Case:
    """Return the case of a classifier of texts."""
    return forward_case(
        f"{name}_classes", f"{title}, classes of texts", call("_sequence_classifiers:make_classes", prefix)
    )


def _experts(name: str, title: str, prefix: str) -> Case:
    """Return the case of a decoder whose experts are in a class of their own."""
    make = call(f"{_MODELS}:make_text_decoder", prefix)
    exists = call("_presence:has_experts_on_hit", name)
    return Case(f"{name}_decoder", f"{title}, decoder with cross-attention, 4 experts", make, exists)


def _composite(name: str, title: str) -> Case:
    """Return the case of two models that were put together."""
    make = call("_composite_models:make_composite_decoder", name)
    return Case(f"joined_{name}", f"{title}, decoder with cross-attention", make)


CASES = (
    *(
        case
        for name, title, prefix in (
            ("whisper", "Whisper", "Whisper"),
            ("t5", "T5", "T5"),
            ("bart", "BART", "Bart"),
            ("marian", "Marian", "Marian"),
        )
        for case in (
            _decoder(name, title, prefix, has_model(name), everywhere=True),
            _encoder(name, title, prefix),
        )
    ),
    _classes("bart", "BART", "Bart"),
    _classes("t5", "T5", "T5"),
    _classes("plbart", "PLBart", "PLBart"),
    _classes("mbart", "mBART", "MBart"),
    _experts("switch_transformers", "Switch Transformers", "SwitchTransformers"),
    _experts("nllb_moe", "NLLB-MoE", "NllbMoe"),
    Case(
        "speech_to_text_decoder",
        "Speech2Text, decoder with cross-attention, padded sounds",
        call(f"{_MODELS}:make_text_decoder", "Speech2Text"),
        has_model("speech_to_text"),
    ),
    _decoder("m2m_100", "M2M100, texts longer than its positions", "M2M100", has_model("m2m_100")),
    _decoder("t5gemma", "T5Gemma", "T5Gemma", has_model("t5gemma")),
    _decoder("led", "LED", "LED", has_model("led")),
    forward_case(
        "led_encoder",
        "LED, encoder, texts of any length with any tokens that see all",
        call("_longformer_models:make_led_encoder"),
        has_model("led"),
    ),
    _composite("trocr", "TrOCR joined with DeiT"),
    _composite("gpt2", "GPT-2 joined with ViT, whose states have another size"),
    _composite("bert", "BERT joined with BERT"),
)
