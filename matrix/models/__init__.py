"""Models that are not from transformers: any model can be exported, and measured."""
