"""The tiny GPT as ONNX files: whole sequences, one graph for prefill and decode, and both in int8."""

import warnings
from pathlib import Path
from typing import Any

import torch

from exportcompat import apply_patches
from exportcompat._decoder import TOKEN_AXES, input_names, output_names
from exportcompat.matrix._cases import PlainDecoder, Sample

from ._decoder import GPTDecoder
from .tiny_gpt import TinyGPT

OPSET = 23
"""The first with an operator for attention: ONNX Runtime decodes a fifth faster than from its parts."""


def export_stateless(gpt: TinyGPT, path: Path) -> None:
    """Export `forward`: `token_ids`, `(batch, sequence)`, to `logits`, both axes dynamic."""
    inputs = {"token_ids": torch.zeros(2, 7, dtype=torch.int64)}
    _export(gpt, path, inputs, {"token_ids": TOKEN_AXES}, ["token_ids"], ["logits"])


def export_decoder(gpt: TinyGPT, path: Path) -> None:
    """Export a `GPTDecoder` with its cache, under the names and axes of `exportcompat._decoder`."""
    decoder, sample = PlainDecoder(GPTDecoder(gpt)), Sample()
    names = input_names(decoder.layers), output_names(decoder.layers)
    _export(decoder.model, path, decoder.sample(sample), decoder.dynamic_shapes(sample), *names)


def quantize(path: Path, to: Path) -> None:
    """Write a file with the weights of matrix products and embeddings in int8.

    Activations are quantised when the file runs. Norms and attention stay in float32.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # By default the operator for attention is rewritten too, into one of the same name that is another.
    quantize_dynamic(path, to, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gather"])


def _export(model: Any, path: Path, kwargs: Any, axes: Any, inputs: list[str], outputs: list[str]) -> None:
    with warnings.catch_warnings(), apply_patches():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (),
            str(path),
            kwargs=kwargs,
            dynamic_shapes=axes,
            input_names=inputs,
            output_names=outputs,
            opset_version=OPSET,
            dynamo=True,
            optimize=True,
            # One file holds everything, so its size says what is shipped.
            external_data=False,
            verbose=False,
        )
