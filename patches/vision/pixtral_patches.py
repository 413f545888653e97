"""Pixtral's tower cuts each image to its size, in loops over images.

Symptom: `Could not guard on data-dependent expression u1*u3 + u5*u7 > 1`: Mistral 3 and Large 4, LightOnOCR,
LLaVA with Pixtral's tower.
Cause: the tower makes a list of what is left of each image, of its positions and of the blocks of its mask; Mistral 3
and LightOnOCR take the features apart by image again, to merge those of a square.
What is done: while it is traced, the patches within their images are picked at once, and the tower is told of one image
of one row that has all of them; positions and mask are those of the images. All squares are found at once.
A mask has as many numbers as there are patches, squared, as upstream's has.
Can go: when upstream computes positions, mask and squares from the tensor of sizes.
"""

from exportcompat.registry import PatchingSpec

_SOURCE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models"
_PIXTRAL = "transformers.models.pixtral.modeling_pixtral"


def _merger(model: str, prefix: str, releases: str) -> PatchingSpec:
    return PatchingSpec(
        id=f"{model.replace('_', '-')}-squares",
        targets=(f"transformers.models.{model}.modeling_{model}:{prefix}PatchMerger.forward",),
        replacement="exportcompat.patches.vision._pixtral:patch_patch_merger",
        requires=(f"transformers{releases}", "torch>=2.6"),
        reason="The features of each image are taken apart by sizes that are data, to merge squares: no graph.",
        upstream=(f"{_SOURCE}/{model}/modeling_{model}.py",),
        proofs=(model,),
        kind="wrap",
    )


SPECS = (
    PatchingSpec(
        id="pixtral-patches",
        targets=(f"{_PIXTRAL}:PixtralVisionModel.forward", f"{_PIXTRAL}:generate_block_attention_mask"),
        replacement="exportcompat.patches.vision._pixtral:patch_pixtral_vision",
        requires=("transformers>=4.49", "torch>=2.6"),
        reason="Each image is cut to its size, in a loop whose length and slices are data: no graph.",
        upstream=(f"{_SOURCE}/pixtral/modeling_pixtral.py",),
        proofs=("mistral3", "llava_pixtral"),
        kind="wrap",
    ),
    _merger("mistral3", "Mistral3", ">=4.50"),
    _merger("lighton_ocr", "LightOnOcr", ">=5.0"),
    _merger("mistral_large4", "MistralLarge4", ">=5.24"),
)
