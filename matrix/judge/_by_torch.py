"""Export with torch alone: `python _by_torch.py MODEL_DIR FILE`. Nothing of exportcompat is imported."""

import inspect
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.integrations.executorch import register_dynamic_cache_export_support

BATCH, PAST, NEW = 2, 5, 3


def main(source: str, file: str) -> None:
    """Export a decoder with its cache, every axis dynamic that a user of a decoder changes."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    # transformers leaves it to the user to tell torch what a cache is made of.
    register_dynamic_cache_export_support()
    known = inspect.signature(model.forward).parameters
    argument = "cache" if "cache" in known else "past_key_values"
    tokens = torch.randint(3, model.config.vocab_size, (BATCH, PAST + NEW))
    with torch.no_grad():
        cache = model(input_ids=tokens[:, :PAST], use_cache=True)[argument]
    inputs = {
        "input_ids": tokens[:, PAST:],
        "attention_mask": torch.ones(BATCH, PAST + NEW, dtype=torch.int64),
        "position_ids": torch.arange(PAST, PAST + NEW).expand(BATCH, NEW).contiguous(),
        argument: cache,
    }
    inputs = {name: value for name, value in inputs.items() if name in known}
    layers = range(len(cache.layers))
    leaves = [f"{layer}.{leaf}" for leaf in ("key", "value") for layer in layers]
    past = {0: "batch", 2: "past_sequence"}
    shapes = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "total_sequence"},
        "position_ids": {0: "batch", 1: "sequence"},
        argument: [[past for _ in layers], [past for _ in layers]],
    }
    torch.onnx.export(
        model,
        (),
        file,
        kwargs=inputs,
        dynamic_shapes={name: shapes[name] for name in inputs},
        input_names=[name for name in inputs if name != argument] + [f"past_key_values.{leaf}" for leaf in leaves],
        output_names=["logits", *(f"present.{leaf}" for leaf in leaves)],
        dynamo=True,
        optimize=True,
        external_data=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
