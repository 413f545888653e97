"""A model goes through its images one by one, and does with each what its size says.

Symptom: no graph. `Could not guard on data-dependent expression`, `Input and output sizes should be greater than 0`,
`tracing inferred a static shape of 3 for dimension inputs['target_sizes'].shape[0]`, in `get_image_features`.
Cause: sizes are data. By them a loop resizes a table of positions (Cosmos 3 Edge, HunYuan-VL), merges patches
(MiniCPM-V, MiniCPM-OCR, VideoLLaMA 3, Nemotron-H Omni), puts them in rows for a convolution (LFM3-VL), cuts tokens to
an image (Emu3, Apertus 1.5) or joins the parts of each (DeepSeek-OCR 2, Step 3.7).
What is done: while it is traced, the model's own code computes the features of one image of the size that every image
of the sample has, in a loop of the graph over all images; there may be any number of them, and none. The size is in the
report and in the file, as an assumption. If an image has another one, a look-up is out of range, which ONNX Runtime
refuses. Samples with images of several sizes are refused. MiniCPM's images stand side by side, so as many as in the
sample fit in, or none, unless their number varied among the calls that were observed.
Can go: model by model, when upstream or a patch computes what it needs from the tensor of sizes.
"""

from exportcompat.patches.toolkit.records import source
from exportcompat.registry import PatchingSpec

_CLASSES = {
    "apertus1p5": "Apertus1p5Model",
    "cosmos3_edge": "Cosmos3EdgeModel",
    "deepseek_ocr2": "DeepseekOcr2Model",
    "emu3": "Emu3Model",
    "hunyuan_vl": "HunYuanVLModel",
    "lfm3_vl": "Lfm3VlModel",
    "minicpm_ocr": "MiniCPMOcrModel",
    "minicpmv4_6": "MiniCPMV4_6Model",
    "minicpmv4_7": "MiniCPMV4_7Model",
    "nemotron_h_omni": "NemotronH_Omni_Reasoning_V3",
    "step3p7": "Step3p7Model",
    "video_llama_3": "VideoLlama3Model",
}
_SIDE_BY_SIDE = ("minicpm_ocr", "minicpmv4_6", "minicpmv4_7")
"""Models whose `forward` takes the first row of pixels, which is not there in a call without images."""


def _place(model: str, method: str) -> str:
    return f"transformers.models.{model}.modeling_{model}:{_CLASSES[model]}.{method}"


SPECS = (
    PatchingSpec(
        id="image-sizes",
        targets=(
            *(_place(model, "get_image_features") for model in _CLASSES),
            *(_place(model, "forward") for model in _SIDE_BY_SIDE),
        ),
        replacement="exportcompat.patches.multimodal._image_by_image:patch_image_method",
        requires=("transformers>=5.24", "torch>=2.13"),
        reason="Each image is handled by its size, which is data, in a loop over as many as the sample has: no graph.",
        upstream=tuple(source(f"models/{model}/modeling_{model}.py", "v5.24.0") for model in _CLASSES),
        proofs=tuple(f"{model}_export" for model in _CLASSES),
        higher_order=("scan",),
        kind="wrap",
    ),
)
