"""Weights of 8 or 4 bits by ONNX Runtime's quantizer, and what they cost on text that the model itself has made."""

import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from exportcompat._extras import require
from exportcompat._verification import OnnxDecoder
from exportcompat.registry import ExportCompatError

from ._files import load, write

Weights = Literal["int8", "int4", "int4-zero-points"]

BLOCK = 32
"""Weights that share a scale."""

_INTEGER_PRODUCTS = 4
"""Products of integers: activations are rounded to 8 bits, which is what is fast on a CPU and counts in the loss."""

_SEQUENCES, _TOKENS = 4, 48


@dataclass(frozen=True)
class Loss:
    """What smaller weights have changed, on text that the model with its own weights has made.

    Attributes:
        weights: which ones.
        tokens: how many were compared.
        top1: share of tokens at which the most likely next one is the same, 0 to 1.
        perplexity: of the text with smaller weights.
        perplexity_before: of the text with the weights as they were.
        size: bytes of all weights, by those before.
    """

    weights: str
    tokens: int
    top1: float
    perplexity: float
    perplexity_before: float
    size: float

    def __str__(self) -> str:
        return (
            f"{self.weights}, blocks of {BLOCK}: the same next token at {self.top1:.1%} of {self.tokens} tokens, "
            f"perplexity {self.perplexity:.4g} instead of {self.perplexity_before:.4g}, {self.size:.0%} of the bytes"
        )

    def to_metadata(self) -> dict[str, str]:
        """Return what a file says of it."""
        return {"weights": json.dumps({**asdict(self), "block": BLOCK})}


def check_weights(weights: str | None) -> None:
    """Refuse what is no kind of weights.

    Raises:
        ExportCompatError: it is none.
    """
    if weights is not None and weights not in get_args(Weights):
        raise ExportCompatError(f"weights {weights!r} are not known; write one of {', '.join(get_args(Weights))}")


def shrink(path: Path, output: Path, weights: Weights) -> Loss:
    """Write a file whose products have smaller weights, and return what that has cost.

    Raises:
        ExportCompatError: there is no product with constant weights.
        MissingExtraError: onnx or onnxruntime is not installed.
    """
    before = load(path)
    after = _quantized(before, weights)
    if not any(node.op_type == "MatMulNBits" for node in after.graph.all_nodes()):
        raise ExportCompatError(f"{path} has no product with constant weights, so they cannot be made smaller")
    size = _bytes(after) / _bytes(before)
    write(after, output)
    return _loss(path, output, weights, size)


def _quantized(model: Any, weights: Weights) -> Any:
    ir = require("onnx_ir", "onnx")
    with _quiet() as name:
        return ir.from_proto(_processed(require(name, "onnx"), ir.to_proto(model), weights))


def _processed(quantizer: Any, model: Any, weights: Weights) -> Any:
    made = quantizer.MatMulNBitsQuantizer(
        model,
        bits=8 if weights == "int8" else 4,
        block_size=BLOCK,
        is_symmetric=weights != "int4-zero-points",
        accuracy_level=_INTEGER_PRODUCTS,
    )
    made.process()
    return made.model.model


@contextmanager
def _quiet() -> Iterator[str]:
    """Give the name of the quantizer's module, which sets up logging when it is imported and reports every node."""
    name = "onnxruntime.quantization.matmul_nbits_quantizer"
    root, logger = logging.getLogger(), logging.getLogger(name)
    handlers, level, own = root.handlers[:], root.level, logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield name
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logger.setLevel(own)


def _bytes(model: Any) -> int:
    return sum(item.const_value.nbytes for item in model.graph.initializers.values())


def _loss(path: Path, output: Path, weights: str, size: float) -> Loss:
    """Let one file make a text token by token, and give the other the same tokens."""
    torch = require("torch", "torch")
    files = [OnnxDecoder(item) for item in (path, output)]
    caches = [file.empty_cache(_SEQUENCES) for file in files]
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 64, (_SEQUENCES, 1), generator=generator)
    same, surprise = 0, [0.0, 0.0]
    for past in range(_TOKENS):
        inputs = {
            "input_ids": tokens,
            "attention_mask": torch.ones(_SEQUENCES, past + 1, dtype=torch.int64),
            "position_ids": torch.full((_SEQUENCES, 1), past),
        }
        results = [file(inputs, cache) for file, cache in zip(files, caches, strict=True)]
        caches = [cache for _, cache in results]
        likely = [logits[:, -1].float().log_softmax(-1) for logits, _ in results]
        same += int((likely[0].argmax(-1) == likely[1].argmax(-1)).sum())
        tokens = torch.multinomial(likely[0].exp(), 1, generator=generator)
        surprise = [old - float(new.gather(1, tokens).sum()) for old, new in zip(surprise, likely, strict=True)]
    count = _SEQUENCES * _TOKENS
    before, after = (math.exp(item / count) for item in surprise)
    return Loss(weights, count, same / count, after, before, size)
