"""VideoLLaMA 3, whose images are handled one by one: a graph is right for those of the size of the sample's."""

from typing import Any

from ._decoder import Sample, TransformersDecoder

_IMAGE, _PLACEHOLDER, _SIDE = [1, 4, 8], 127, 4
_TOKENS = 8


class VideoLlama3Decoder(TransformersDecoder):
    """A decoder whose sample has an image in each text."""

    def sample(self, sample: Sample) -> dict[str, Any]:
        """Return a prompt that begins with the tokens of an image, and its patches."""
        import torch

        generator = torch.Generator().manual_seed(sample.batch)
        tokens = torch.randint(3, 100, (sample.batch, _TOKENS + sample.new), generator=generator)
        tokens[:, :_TOKENS] = _PLACEHOLDER
        patches = _IMAGE[1] * _IMAGE[2] * sample.batch
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "pixel_values": torch.randn(patches, 3 * _SIDE * _SIDE, generator=generator),
            "image_grid_thw": torch.tensor([_IMAGE] * sample.batch),
            "image_merge_sizes": torch.tensor([2] * sample.batch),
        }


def make_video_llama_3() -> VideoLlama3Decoder:
    """Build the model with a small vision encoder."""
    from transformers import VideoLlama3Config, VideoLlama3ForConditionalGeneration

    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "initializer_range": 0.2}
    config = VideoLlama3Config(
        text_config={"model_type": "qwen2", **sizes, "num_key_value_heads": 2, "vocab_size": 128},
        vision_config={**sizes, "patch_size": _SIDE},
        image_token_id=_PLACEHOLDER,
        video_token_id=126,
    )
    return VideoLlama3Decoder(VideoLlama3ForConditionalGeneration(config))
