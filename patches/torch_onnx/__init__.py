"""Defects of `torch.onnx.export(dynamo=True)`: a graph that is right, and no file or a wrong one.

What lives here: axes, inputs and outputs that lose their names or become constants, operators on sizes and operators
that ONNX or ONNX Runtime has not, passes that stop at what a valid graph may hold, and attention whose result differs
between eager and ONNX where a query has no key. It was all seen after `torch.export` had succeeded; what fails before
that is in `torch_export`.

Helpers: `_symbolic_operators` has functions of ONNX for operators on sizes. Everything else wraps or replaces one
function of the exporter and needs nothing but `toolkit.tracing.is_traced`. A file is compared with eager at sizes that
the export did not see: what the exporter gets wrong is often right for the sample.

Upstream: `torch/onnx/_internal/exporter/` (`_building.py`, `_compat.py`, `_core.py`, `_dynamic_shapes.py`,
`_fx_passes.py`, `_ir_passes.py`, `_registration.py`), `torch/onnx/_internal/fx/passes/type_promotion.py`, and
`scaled_dot_product_attention` in `torch/nn/functional.py`.
"""
