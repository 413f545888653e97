"""Export with transformers' `OnnxExporter`: `python _by_transformers.py MODEL_DIR FILE`.

The part that decodes is kept, since it takes a cache and, as it is exported here, any number of tokens. Its caches get
the names that `exportcompat verify` and other clients read; nothing else of the file is changed.
"""

import re
import sys

import onnx_ir as ir
import torch
from transformers import AutoModelForCausalLM
from transformers.exporters import OnnxConfig, OnnxExporter

_LEAVES = {"keys": "key", "values": "value"}


def main(source: str, file: str) -> None:
    """Export a decoder from a batch of two texts, of which one is padded: without it the file has no mask."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).eval()
    tokens = torch.randint(3, model.config.vocab_size, (2, 5))
    mask = torch.ones_like(tokens)
    mask[0, :2] = 0
    made = OnnxExporter().export_for_generation(
        model,
        {"input_ids": tokens, "attention_mask": mask},
        config=OnnxConfig(dynamic=True),
        multi_token_decode=True,
    )
    program = made.components["decode"].program
    _write_windows(program.graph, getattr(model.config, "sliding_window", None))
    for value in (*program.graph.inputs, *program.graph.outputs):
        value.name = _renamed(value.name)
    ir.save(program, file)


def _write_windows(graph: ir.Graph, window: int | None) -> None:
    """Make constants of inputs that hold the window of a layer, which a cache of transformers has among its tensors."""
    for value in [item for item in graph.inputs if str(item.name).endswith("_sliding_window_tensor")]:
        graph.inputs.remove(value)
        value.const_value = ir.tensor(window, dtype=ir.DataType.INT64, name=value.name)
        graph.register_initializer(value)


def _renamed(name: str) -> str:
    found = re.fullmatch(r"(input|output)\.\w+\.layers\.(\d+)\.(keys|values)", name)
    if found is None:
        return name
    kind = {"input": "past_key_values", "output": "present"}[found[1]]
    return f"{kind}.{found[2]}.{_LEAVES[found[3]]}"


if __name__ == "__main__":
    main(*sys.argv[1:])
