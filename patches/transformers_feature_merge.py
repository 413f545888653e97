"""TODO
"""

from exportcompat.registry import PatchingSpec

SPECS = (
    PatchingSpec(
        id="feature-merge",
        targets=tuple(
            f"mentioning(transformers:{name})"
            for name in (
                "masked_scatter",
                "torch_compilable_check",
                "special_image_mask",
                "split_sizes",
                "num_real_images_per_batch",
                "real_images_inds",
                "special_image_token_mask",
                "block_offset",
            )
        ),
        replacement="exportcompat.patches._feature_merge:merging",
        requires=("transformers>=4.44", "torch>=2.6"),
        reason="Features of images are scattered into the text, which is no graph for a call without images.",
        upstream=("https://github.com/pytorch/pytorch/issues/186146",),
        proofs=("llava",),
        kind="wrap",
    ),
)
