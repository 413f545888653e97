"""What the encoders of a multimodal model have returned, as parts of its result."""

ENCODER_OUTPUTS = ("image_outputs", "video_outputs", "audio_outputs")
"""Names of the parts, from transformers 5.24 on. A list of features in one of them has an item for each image."""
