"""What patches of several areas share; no defect lives here, and no area is imported from here.

`tracing.is_traced` says whether a call is being recorded: while it is not, a patch calls the original, and
`wrapping.when_traced` does that. `function_modes.run_under` runs a method of upstream with some torch functions
answered otherwise, and `function_modes.Override` is a mode made of handlers. `records.variants` makes the records that
differ by release. `module_state.preserved` gives modules their attributes back. `cache_names` knows every name that a
cache has had as an argument, `layer_states` where a layer of a cache has its convolution and recurrent state,
`encoder_outputs` which parts of a result encoders have returned, and `patch_merging` which patches are merged into one
feature. What only one area uses stays there, in a module with an underscore.
"""
