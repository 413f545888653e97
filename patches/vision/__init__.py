"""Defects of image encoders: positions, windows and segments that are computed from sizes in Python.

What lives here: vision towers that walk over the images of a batch in loops, attention within one image or window at a
time, and positions that are looked up or resized by the sizes that were traced. What happens to the features that come
out is in `multimodal`.

Helpers: `_patch_coordinates` says where each patch is from a tensor of sizes, without a loop; `_tower_context` hands
the number of patches from method to method; `_segment_batch` and `_segment_attention` turn segments into rows of a
batch or into a mask; `_grid_methods` has the methods of Qwen-VL's towers, and `_glm4v` and `_pixtral` those of two
others. Sizes are tensors `(images, 2)` or `(images, 3)`, int64; compute from them, and never call `tolist` or `int` on
them.

Upstream: the vision classes in `modeling_*.py` of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and their copies, GLM-4V, Pixtral,
Mistral 3, Idefics, SigLIP 2, ViT, BLIP, Swin, BEiT and MobileViT; `transformers/vision_utils.py`; `torch_int` in
`transformers/utils/generic.py`.
"""
