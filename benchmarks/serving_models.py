"""The models that `serving.py` times: small ones of random weights, and the calls of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """One call with a single sequence.

    Attributes:
        name: the head of its column.
        part: which file it is a call of.
        past: tokens before it.
        new: tokens in it.
    """

    name: str
    part: str
    past: int
    new: int


def _tokens(*pairs: tuple[int, int], part: str = "decoder") -> list[Workload]:
    return [Workload(f"{new} after {past}" if past else f"{new} tokens", part, past, new) for past, new in pairs]


FRAMES = 3000
"""What Whisper's encoder takes, thirty seconds; it gives half as many states."""

_DECODER = _tokens((1, 1), (64, 1), (4096, 1), (0, 256), (0, 2048))
_ENCODER = _tokens((0, 16), (0, 128), (0, 512), part="encoder")
_WHISPER = [Workload("encoder", "encoder", 0, FRAMES), *_tokens((0, 4), (1, 1), (64, 1), (440, 1))]

_EXPERTS = {"num_experts": 16, "num_experts_per_tok": 2, "decoder_sparse_step": 1}
_ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"] * 2, "query_pre_attn_scalar": 32}

DECODERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "llama": ("Llama", {}),
    "qwen3": ("Qwen3", {"head_dim": 64}),
    "gemma3": ("Gemma3", {"head_dim": 32, "sliding_window": 512, **_ALTERNATING}),
    "phi3": ("Phi3", {"original_max_position_embeddings": 8192}),
    "mistral": ("Mistral", {"sliding_window": 1024}),
    "mixtral": ("Mixtral", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    "qwen3_moe": ("Qwen3Moe", {**_EXPERTS, "head_dim": 64}),
}
MODELS = (*DECODERS, "whisper", "bert")


def build_model(name: str, layers: int, hidden: int) -> Any:
    """Return a random model; decoders have 8 heads of queries and 2 of keys."""
    import torch

    torch.manual_seed(0)
    if name in DECODERS:
        return _decoder(name, layers, hidden).eval()
    return (_whisper if name == "whisper" else _bert)(layers, hidden).eval()


def _decoder(name: str, layers: int, hidden: int) -> Any:
    import transformers

    prefix, settings = DECODERS[name]
    kind = getattr(transformers, f"{prefix}TextConfig", None) or getattr(transformers, f"{prefix}Config")
    sizes = {
        "vocab_size": 4000, "hidden_size": hidden, "intermediate_size": hidden * 8 // 3 // 32 * 32,
        "head_dim": hidden // 8, "num_hidden_layers": layers, "num_attention_heads": 8, "num_key_value_heads": 2,
        "max_position_embeddings": 8192, "initializer_range": 0.05, "moe_intermediate_size": hidden // 2,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    known = {**sizes, **settings}
    if "layer_types" in known:
        known["layer_types"] = (list(known["layer_types"]) * layers)[:layers]
    if prefix != "Qwen3Moe":
        known.pop("moe_intermediate_size")
    return transformers.AutoModelForCausalLM.from_config(kind(**known))


def _whisper(layers: int, hidden: int) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=4000, d_model=hidden, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=4 * hidden, decoder_ffn_dim=4 * hidden, init_std=0.05,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    return WhisperForConditionalGeneration(config)


def _bert(layers: int, hidden: int) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=4000, hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
        num_attention_heads=8, initializer_range=0.05,
    )  # fmt: skip
    return BertModel(config)


def inputs_of(name: str) -> Any:
    """Return what `export` observes."""
    import torch

    if name == "whisper":
        return [{"input_features": torch.randn(batch, 80, FRAMES)} for batch in (1, 2)]
    tokens = torch.randint(3, 99, (2, 7))
    call = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if name != "bert":
        return call
    longer = torch.randint(3, 99, (3, 9))
    return [call, {"input_ids": longer, "attention_mask": torch.ones_like(longer)}]


def workloads_of(name: str) -> Sequence[Workload]:
    """Return the calls that are timed."""
    return {"whisper": _WHISPER, "bert": _ENCODER}.get(name, _DECODER)


def tokens(new: int) -> Any:
    """Return ids that are always the same: experts are chosen by them."""
    import torch

    return torch.randint(3, 4000, (1, new), generator=torch.Generator().manual_seed(new))


def eager(model: Any, whole: Any = None) -> Callable[[Workload], Call]:
    """Call a model of torch; its cache is filled before each call.

    Args:
        model: what is called.
        whole: the model that `model` is a compiled form of; None if it is the model.
    """
    import torch

    whole = whole or model

    def prepare(load: Workload) -> Call:
        arguments = {"whisper": _of_whisper, "bert": _of_bert}.get(whole.config.model_type, _of_decoder)(whole, load)

        def call() -> Any:
            with torch.no_grad():
                return model(**arguments())

        return call

    return prepare


def _of_decoder(model: Any, load: Workload) -> Callable[[], dict[str, Any]]:
    import torch
    from transformers import DynamicCache

    config = model.config
    channels = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (1, config.num_key_value_heads, load.past, channels)
    states = [(torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)]
    call = {
        "input_ids": tokens(load.new),
        "attention_mask": torch.ones(1, load.past + load.new, dtype=torch.int64),
        "position_ids": torch.arange(load.past, load.past + load.new)[None],
    }

    def arguments() -> dict[str, Any]:
        cache = DynamicCache(config=config)
        for layer, (key, value) in enumerate(states) if load.past else ():
            cache.update(key, value, layer)
        return {**call, "past_key_values": cache}

    return arguments


def _of_bert(model: Any, load: Workload) -> Callable[[], dict[str, Any]]:
    import torch

    call = {"input_ids": tokens(load.new), "attention_mask": torch.ones(1, load.new, dtype=torch.int64)}
    return lambda: call


def _of_whisper(model: Any, load: Workload) -> Callable[[], dict[str, Any]]:
    import torch
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.modeling_outputs import BaseModelOutput

    config, heads = model.config, model.config.decoder_attention_heads
    if load.part == "encoder":
        # One token is decoded beside; it is little.
        call = {"input_features": torch.randn(1, 80, FRAMES), "decoder_input_ids": tokens(1)}
        return lambda: call
    states = BaseModelOutput(last_hidden_state=torch.randn(1, FRAMES // 2, config.d_model))
    sizes = (load.past, FRAMES // 2)
    both = [torch.randn(1, heads, size, config.d_model // heads) for size in sizes]

    def arguments() -> dict[str, Any]:
        caches = [DynamicCache(), DynamicCache()]
        for layer in range(config.decoder_layers if load.past else 0):
            for cache, state in zip(caches, both, strict=True):
                cache.update(state, state, layer)
        cache = EncoderDecoderCache(*caches)
        return {"encoder_outputs": states, "decoder_input_ids": tokens(load.new), "past_key_values": cache}

    return arguments
