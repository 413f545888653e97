"""Features of images and sounds do not get into the text in a graph, or not in a call without any.

Symptom: for nearly all models with images or sounds: `GuardOnDataDependentSymNode` in `get_placeholder_mask` (4.55 to
4.57) or where placeholders are counted (LLaVA and others of 4.48), `No ONNX function found for aten._is_all_true` (from
5.0), a number of images that is fixed (LLaVA from 4.53, Idefics and SmolVLM from 5.20.1), or a file that stops in ONNX
Runtime in a call without images.
Cause: the features are split by image, to be put together again right behind it; their number is compared with that of
the placeholders by an `if` on data, or by an operator that ONNX does not have; `masked_scatter` of an empty source, and
boolean indices, are written otherwise in nearly every release of onnxscript; ONNX Runtime reduces nothing along a
negative axis of a tensor without elements (`sum(-1)` of no images has a wrong shape).
Ovis2 asks whether there are tokens around images, to write to them.
Idefics3 to 4.53 puts features into a text only if the past is empty, and leaves out a mask by its values.
What is done: while it is traced, features stay whole, each placeholder picks its feature by its number, and axes are
counted from the first one. Rows are written by a mask to any number of tokens. The check is in the graph: if there are
features, and not as many as placeholders, an index is out of range, and the runtime refuses the call. Without features
the text is left as it is, as upstream does without images.
Can go: when torch exports a call without images and one with them as one graph.
"""

from exportcompat.registry import PatchingSpec

_WORDS = (
    # Where features are put in their places, and counted.
    "masked_scatter",
    "special_image_mask",
    "torch_compilable_check",
    # Idefics2, Idefics3 (to 4.53) and SmolVLM (to 4.57) write them to their places in ways of their own.
    "special_image_token_mask",
    "block_offset",
    "inputs_merger",
    # Where they are split by image.
    "split_sizes",
    "num_real_images_per_batch",
    "real_images_inds",
)

SPECS = (
    PatchingSpec(
        id="feature-merge",
        targets=tuple(f"methods_using(transformers:{word})" for word in _WORDS),
        replacement="exportcompat.patches.multimodal._feature_merge:patch_feature_merge",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Features are split, counted and put into a text by questions on data: no graph, or one with images.",
        upstream=(
            "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/llava/modeling_llava.py",
            "https://github.com/pytorch/pytorch/issues/186146",
        ),
        proofs=("llava", "idefics3", "qwen2_audio", "ovis2", "idefics2"),
        kind="wrap",
    ),
)
