"""Defects of `torch.export`: no graph, a wrong graph, or a live model that is another one afterwards.

What lives here: an argument that gets the shapes of another one or is not known by its name, a size that becomes a
constant, state that tracing leaves on the module or refuses, constants and buffers that cannot be put into a program or
taken out of it, and what FakeTensors answer wrongly. No model is named in any of it: whatever a single model does to
make a graph impossible is in the areas behind.

Helpers: `toolkit.module_state.preserved` gives every module its attributes back, `toolkit.tracing.is_traced` says
whether a call is being recorded, and `toolkit.cache_names` has the names that a cache has had. Most targets are
functions of one argument or two that torch calls by itself, so wrapping them is enough: prefer `kind="wrap"`, since
torch changes their bodies in most releases and their signatures in few.

Upstream: `torch/export/_trace.py`, `_unlift.py`, `dynamic_shapes.py` and `exported_program.py`;
`torch/_export/non_strict_utils.py` and `passes/lift_constants_pass.py`; `torch/_functorch/aot_autograd.py`, `apis.py`
and `predispatch.py`; `torch/_subclasses/fake_impls.py`, `fake_tensor.py` and `functional_tensor.py`;
`torch/fx/passes/runtime_assert.py`; `torch/nn/modules/module.py`.
"""
