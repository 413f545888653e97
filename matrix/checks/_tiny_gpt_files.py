"""The tiny GPT as ONNX files: whole sequences, one graph for prefill and decode, and both in int8."""

from pathlib import Path
from typing import Any

import torch

from exportcompat import apply_patches
from exportcompat._verification import LOGITS, TOKEN_AXES
from exportcompat.matrix.cases import PlainDecoder, Sample
from exportcompat.matrix.models import GPTDecoder
from exportcompat.matrix.models.tiny_gpt import TinyGPT

from ._check import export, write

OPSET = 23
"""The first with an operator for attention: ONNX Runtime decodes a fifth faster than from its parts."""

# One file holds everything, so its size says what is shipped.
_OPTIONS: dict[str, Any] = {"opset_version": OPSET, "external_data": False}


def export_stateless(gpt: TinyGPT, path: Path) -> None:
    """Export `forward`: `token_ids`, `(batch, sequence)`, to `logits`, both axes dynamic."""
    names = ["token_ids"]
    inputs = dict.fromkeys(names, torch.zeros(2, 7, dtype=torch.int64))
    with apply_patches():
        write(gpt, inputs, dict.fromkeys(names, TOKEN_AXES), (names, [LOGITS]), path, **_OPTIONS)


def export_decoder(gpt: TinyGPT, path: Path) -> None:
    """Export a `GPTDecoder` with its cache, under the names and axes of `exportcompat._verification._onnx_decoder`."""
    with apply_patches():
        export(PlainDecoder(GPTDecoder(gpt)), Sample(), path, **_OPTIONS)


def quantize(path: Path, to: Path) -> None:
    """Write a file with the weights of matrix products and embeddings in 8 bits, unsigned.

    Activations are quantised when the file runs. Norms and attention stay in float32.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Processors without VNNI add products of signed weights in 16 bits, which overflow without a word: 78 % of the next
    # tokens were those of float32, and 96 % with unsigned ones (https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html).
    # By default the operator for attention is rewritten too, into one of the same name that is another.
    quantize_dynamic(path, to, weight_type=QuantType.QUInt8, op_types_to_quantize=["MatMul", "Gather"])
