"""Encoders of texts, images and sounds."""

from typing import Any

from ._case import Call, Case, call, has_model

FORWARD = call("_forward:compare_calls")
"""Runs the calls of a model without a cache."""


def forward_case(name: str, title: str, make: Call, exists: Call | None = None, **more: Any) -> Case:
    """Return the case of a model without a cache."""
    found = {} if exists is None else {"exists": exists}
    return Case(name, title, make, **{"compare": FORWARD, **found, **more})


_TEXTS, _SOUNDS, _IMAGES = "_encoder_models", "_audio_encoder_models", "_vision_encoder_models"

CASES = (
    forward_case("bert", "BERT", call(f"{_TEXTS}:make_bert"), has_model("bert"), everywhere=True),
    forward_case(
        "llama_embedding",
        "Llama as a model of embeddings, with positions that all texts share",
        call(f"{_TEXTS}:make_llama_embedding"),
        has_model("llama"),
    ),
    forward_case(
        "modernbert",
        "ModernBERT, every second layer with a window",
        call(f"{_TEXTS}:make_modernbert"),
        has_model("modernbert"),
        everywhere=True,
    ),
    forward_case("vit", "ViT, images of any size", call(f"{_TEXTS}:make_vit"), has_model("vit"), everywhere=True),
    forward_case(
        "clip",
        "CLIP, texts and images of any size",
        call(f"{_TEXTS}:make_clip"),
        call("_presence:has_clip_of_any_size"),
        everywhere=True,
    ),
    forward_case(
        "siglip2",
        "SigLIP 2, images as patches, each of its own size",
        call(f"{_TEXTS}:make_siglip2"),
        has_model("siglip2"),
        everywhere=True,
    ),
    forward_case(
        "wav2vec2",
        "wav2vec 2.0, sounds of several lengths",
        call(f"{_TEXTS}:make_wav2vec2"),
        has_model("wav2vec2"),
        everywhere=True,
    ),
    forward_case(
        "vilt",
        "ViLT, texts with images of several sizes",
        call("_vilt_model:make_vilt"),
        has_model("vilt"),
    ),
    forward_case(
        "returned_mask",
        "a model of our own that hands its mask back",
        call("_returned_mask_model:make_returned_mask"),
    ),
    forward_case(
        "clamping_encoder",
        "a model of our own that clamps a value in two ways",
        call("_clamping_model:make_clamping_encoder"),
    ),
    forward_case("vits", "VITS, texts of several lengths", call("_vits_model:make_vits"), has_model("vits")),
    forward_case(
        "deberta_v2",
        "DeBERTa-v2, buckets of distances",
        call("_deberta_model:make_deberta_v2"),
        has_model("deberta_v2"),
    ),
    *(
        forward_case(name, f"{title}, series of several lengths", call(f"_timesfm_models:make_{name}"), has_model(name))
        for name, title in (("timesfm", "TimesFM"), ("timesfm2_5", "TimesFM 2.5"))
    ),
    *(
        forward_case(name, f"{title}, tables that end early", call("_slanet_models:make_tables", name), has_model(name))
        for name, title in (("slanet", "SLANet"), ("slanext", "SLANeXt"))
    ),
    forward_case(
        "aimv2",
        "AIMv2, texts with padding and without",
        call("_aimv2_model:make_aimv2"),
        call("_presence:has_model_class", "aimv2", "Aimv2Model"),
    ),
    *(
        forward_case(
            name,
            f"{title}'s encoder, sounds of any length",
            call("_codec_models:make_encoder", model_type),
            call("_presence:has_model_class", model_type.removesuffix("_encoder"), kind),
        )
        for name, title, model_type, kind in (
            ("mimi_encoder", "Mimi", "mimi_encoder", "MimiEncoderModel"),
            (
                "pocket_tts_encoder",
                "Pocket TTS",
                "pocket_tts_audio_tokenizer_encoder",
                "PocketTTSAudioTokenizerEncoderModel",
            ),
            ("wavtokenizer_encoder", "WavTokenizer", "wavtokenizer_encoder", "WavTokenizerEncoderModel"),
        )
    ),
    forward_case("mimi", "Mimi, sounds of any length", call("_codec_models:make_mimi"), has_model("mimi")),
    forward_case(
        "encodec",
        "EnCodec without chunks, sounds of any length",
        call("_encodec_model:make_encodec"),
        has_model("encodec"),
    ),
    forward_case(
        "fastspeech2_conformer",
        "FastSpeech2, texts of several lengths",
        call("_codec_models:make_fastspeech2"),
        has_model("fastspeech2_conformer"),
    ),
    forward_case(
        "qwen3_asr_encoder",
        "Qwen3-ASR's encoder, sounds of several lengths",
        call("_qwen3_asr_model:make_qwen3_asr_encoder"),
        has_model("qwen3_asr"),
    ),
    forward_case(
        "canine", "CANINE, texts within and beyond a chunk", call("_canine_model:make_canine"), has_model("canine")
    ),
    forward_case(
        "moonshine",
        "Moonshine, sounds with a mask and texts",
        call("_moonshine_model:make_moonshine"),
        has_model("moonshine"),
    ),
    forward_case(
        "udop", "UDOP, words of a document and its image", call("_udop_model:make_udop_encoder"), has_model("udop")
    ),
    *(
        forward_case(
            f"{name}_voices",
            f"{title} that knows voices, sounds with a mask",
            call("_xvector_model:make_voices", prefix),
            has_model(name),
        )
        for name, title, prefix in (
            ("wavlm", "WavLM", "WavLM"),
            ("wav2vec2", "wav2vec 2.0", "Wav2Vec2"),
            ("data2vec", "Data2Vec of sounds", "Data2VecAudio"),
            ("unispeech_sat", "UniSpeech-SAT", "UniSpeechSat"),
            ("wav2vec2_conformer", "wav2vec 2.0 with conformers", "Wav2Vec2Conformer"),
            ("wav2vec2_bert", "wav2vec 2.0 BERT", "Wav2Vec2Bert"),
        )
    ),
    forward_case("sew", "SEW, odd and even lengths", call(f"{_SOUNDS}:make_sew"), has_model("sew")),
    forward_case("sew_d", "SEW-D, odd and even lengths", call(f"{_SOUNDS}:make_sew_d"), has_model("sew_d")),
    *(
        forward_case(name, f"{title}, whole texts", call(f"_whole_text_models:make_{name}"), has_model(name))
        for name, title in (
            ("cpmant", "CPM-Ant"),
            ("flaubert", "FlauBERT"),
            ("prophetnet", "ProphetNet's decoder"),
            ("xlm", "XLM"),
        )
    ),
    forward_case(
        "longformer",
        "Longformer, texts of any length with any tokens that see all",
        call("_longformer_models:make_longformer"),
        has_model("longformer"),
    ),
    forward_case(
        "longformer_attentions",
        "Longformer with the probabilities of attention",
        call("_longformer_models:make_longformer_attentions"),
        has_model("longformer"),
    ),
    forward_case("xmod", "X-MOD, texts of several languages", call("_xmod_model:make_xmod"), has_model("xmod")),
    forward_case("git_whole", "GIT, whole texts with an image", call("_git_model:make_git_whole"), has_model("git")),
    *(
        forward_case(name, f"{title}, images of several sizes", call(f"{_IMAGES}:make_{name}"), has_model(name))
        for name, title in (
            ("swin", "Swin"),
            ("swinv2", "Swin v2"),
            ("donut", "Donut's encoder"),
            ("focalnet", "FocalNet"),
            ("rt_detr", "RT-DETR"),
        )
    ),
    forward_case(
        "maskformer_swin",
        "MaskFormer's Swin, whose results have numbers",
        call(f"{_IMAGES}:make_maskformer_swin"),
        has_model("maskformer"),
    ),
    *(
        forward_case(name, f"{title}, segments of images", call(f"_eomt_models:make_{name}"), has_model(name))
        for name, title in (("eomt", "EoMT"), ("eomt_dinov3", "EoMT-DINOv3"))
    ),
    forward_case(
        "superpoint",
        "SuperPoint, keypoints of images, as many as there are",
        call("_superpoint_model:make_superpoint"),
        has_model("superpoint"),
    ),
    forward_case(
        "superglue",
        "SuperGlue, keypoints of two images that match",
        call("_superpoint_model:make_superglue"),
        has_model("superglue"),
    ),
    forward_case(
        "mobilevit",
        "MobileViT, images of several sizes",
        call("_resized_encoder_models:make_mobilevit"),
        has_model("mobilevit"),
        slow_without=("mobilevit-resize",),
    ),
    *(
        forward_case(
            f"mobilenet_v{version}",
            f"MobileNet v{version}, images of several sizes",
            call(f"_mobilenet_models:make_mobilenet_v{version}"),
            has_model(f"mobilenet_v{version}"),
        )
        for version in (1, 2)
    ),
    forward_case(
        "beit",
        "BEiT, relative positions, images of several sizes",
        call("_resized_encoder_models:make_beit"),
        has_model("beit"),
    ),
    forward_case(
        "dinov2_with_registers",
        "DINOv2 with registers, images of several sizes",
        call("_resized_encoder_models:make_dinov2_with_registers"),
        has_model("dinov2_with_registers"),
    ),
    forward_case(
        "beit_called",
        "BEiT, relative positions, called before it is exported",
        call("_beit_called_model:make_beit_called"),
        has_model("beit"),
    ),
)
