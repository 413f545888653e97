"""Defects on the way from images and sounds into a text: numbers of features, images and placeholders that are data.

What lives here: features that are split by image and merged at the tokens that stand for them, checks that there are as
many of one as of the other, calls without any image, images cut into tiles, and results with one item for each image.
What goes on within an encoder is in `vision`; a model whose text alone fails belongs to another area.

Helpers: `_feature_merge` puts features into a text as a graph can have it, `_anyres_layout` and `_anyres_features` do
so for tiles, `_blank_image` adds one image that is dropped again, so that their number may be 0;
`toolkit.patch_merging` numbers the patches of each cell, and `toolkit.function_modes.run_under` answers `torch.split`
and the like while upstream's own method runs. A count that is data is checked in the graph, not dropped.

Upstream: `get_image_features`, `get_placeholder_mask` and `forward` in the `modeling_*.py` of LLaVA and its kin,
Qwen-VL, Idefics, PaliGemma, Gemma 3, InternVL and LFM2-VL; `transformers/modeling_outputs.py`.
"""
