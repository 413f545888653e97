"""Some operators of torch have none in ONNX, or none for every call: ranks, searches, windows, quotients.

Symptom: `No ONNX function found` for `cummax`, `cummin` or `searchsorted`, which `torch.isin` of many elements becomes,
for `median`, `mode`, `kthvalue`, a stable sort, `masked_select`, `cumprod`, `fmax`, `hypot`, `copysign`, `erfinv`,
`gcd` and others; ONNX Runtime refuses sums, powers and means of booleans, and `relu` or `floor` of integers.
With group normalization a file stops in a call without images: `cannot be reshaped to the requested shape. Input
shape:{0,32,...}, requested shape:{0,32,-1}`, in the tokenizers of images of Chameleon and Emu3. No function is found
for `_int_mm` either, the product of int8 matrices in models whose activations are quantized (torchao). For
a model with experts that lives on a GPU: `torch.histc only works on float but self.type.dtype=INT32`.
Cause: neither ONNX nor onnxscript has them, and torch has no decomposition. `aten_group_norm` of onnxscript has the
number of elements of a group inferred, which nothing can be inferred from where there is no row. `aten_histc`
refuses integers, which torch counts on a GPU alone, and which transformers counts there (`grouped_mm_experts_forward`).
ONNX has `MatMulInteger`, of which the exporter does not know. `embedding_bag` becomes a loop over bags, which takes
longer for each one. A `SplitToSequence` of parts of a dynamic size, which `chunk` is, stops onnxscript's optimizer:
`Error during constant folding for node 'node_split'`; it asks for the value of the size, which is no constant.
Silently wrong are `//` and `%` of floats, made of a quotient that is rounded too late, so that `1.0 // 0.1` is 10 and
not 9, and `div` of integers with a rounding, which goes by float32: off from 16,777,217 on. Of what is scattered with a
mean, for which ONNX has no reduction, the last one is left. `logsigmoid` and `logaddexp` of large numbers are infinite,
and `atan2` takes a zero for negative. `cdist` has no function. Adaptive pooling and `area` interpolation count the
elements of a window in the sample, and are wrong for any other size. A map that is resized with `antialias` and
`align_corners` has elements of other places. Batch normalization in training takes the means of
other batches, which its module has kept. `label_smoothing`, `divisor_override` and the type
that `softmax`, `mean` or `sum` shall compute in are dropped, or come too late: the mean of integers is rounded, and a
router's probabilities are those of half precision. `log1p` and `expm1` lose the digits of what is small, `sign` of NaN
is NaN, and `any` of nothing is true. `nn.GRU` has wrong numbers with onnxscript before 0.7.1, whose function resets
another product (`linear_before_reset`). Of `nn.RNN` there is no function, and of an `nn.LSTM` with a projection one
that ONNX Runtime refuses. `only 4D query, key, and value are supported` is said of attention of three or five axes, and
no function is found for complex numbers that are indexed, expanded, or get an axis, as rotary factors are.
What is done: the exporter takes them apart: a running extreme by steps of doubling length, a search by halves. These
two cost some 31 times their elements where the length is dynamic, and not its square. Integers are counted as float64,
and a product of int8 becomes that of ONNX, from torch 2.8 on. Rows of all bags are added up at once, and parts are
slices. Quotients are made from the remainder, as torch makes them. Ranks are found by a sort, windows by a product with
a matrix of means, and numbers are cast before an operator, not behind it. A projected state is a state, times the
projection, which the matrix of the gates takes in. Axes of attention before the heads are one, and complex numbers are
moved as their two parts.
To onnxscript 0.7.1 `torch-onnx-index-put`, which has the same place, does it too.
Can go: when torch or onnxscript has them.
"""

from collections.abc import Callable
from typing import Any

from exportcompat.registry import PatchingSpec


def patch_decomposition_table(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `create_onnx_friendly_decomposition_table`, made to know the operators that ONNX lacks."""
    from ._exporter_table import ExporterTable
    from ._taken_apart import corrections, table

    def create_onnx_friendly_decomposition_table(onnx_registered_ops: Any) -> dict[Any, Any]:
        ours = {operator: made for operator, made in table().items() if operator not in onnx_registered_ops}
        found: dict[Any, Any] = original(onnx_registered_ops)
        made = ExporterTable({**ours, **found}, onnx_registered_ops)
        made.correct(corrections())
        return made

    return create_onnx_friendly_decomposition_table


SPECS = (
    PatchingSpec(
        id="torch-onnx-missing-operators",
        targets=("torch.onnx._internal.exporter._decomp:create_onnx_friendly_decomposition_table",),
        replacement=f"{__name__}:patch_decomposition_table",
        requires=("torch>=2.6", "onnxscript>=0.7.2"),
        reason="ONNX has nothing for some operators, as cummax: no graph; for others, as // and %, another: wrong.",
        upstream=("https://github.com/pytorch/pytorch/blob/v2.13.0/torch/onnx/_internal/exporter/_decomp.py",),
        proofs=("ranking_gpt", "dividing_gpt", "voting_gpt", "pooling_gpt", "rotating_gpt", "prophetnet"),
        kind="wrap",
    ),
)
