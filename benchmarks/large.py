"""Export a Llama of 8 billion parameters in bfloat16: python benchmarks/large.py [--layers 32] [--folder FOLDER].

Says how long it takes and how much memory beside the weights, which are random. It needs 17 GB of memory and as much
free disk with all layers; `--layers 2` has 1.5 billion parameters.
"""

import argparse
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from process_memory import peak

GIGABYTE = 1e9
_SCALE = 0.02
_BLOCK = 1 << 20
"""Random numbers that are drawn once, and repeated in every weight: drawing all takes minutes."""


def make_llama(layers: int) -> Any:
    """Build a Llama as wide as that of 8 billion parameters; no weight is held twice, also while it is built."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    config = LlamaConfig(vocab_size=128256, num_hidden_layers=layers, max_position_embeddings=8192, **sizes)
    with torch.device("meta"):
        model = LlamaForCausalLM(config).to(torch.bfloat16)
    model = model.to_empty(device="cpu").eval()
    block = torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16) * _SCALE
    for weight in model.parameters():
        for part in weight.data.view(-1).split(_BLOCK):
            part.copy_(block[: len(part)])
    # Frequencies are computed and no weights.
    model.model.rotary_emb.__init__(config)
    return model


def main() -> None:
    """Export one model, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--folder", type=Path, help="where the file goes while it is written; default: a temporary one")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    from exportcompat import export

    model, tokens = make_llama(options.layers), torch.arange(3, 10)[None]
    weights, before = sum(weight.nbytes for weight in model.parameters()), peak()
    wall, cpu = time.perf_counter(), time.process_time()
    with TemporaryDirectory(dir=options.folder) as folder:
        export(model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}, folder, verify=False)
        written = sum(file.stat().st_size for file in Path(folder).iterdir())
    print(f"parameters: {sum(weight.numel() for weight in model.parameters()) / GIGABYTE:.2f} billion")
    print(f"written: {written / GIGABYTE:.2f} GB; weights: {weights / GIGABYTE:.2f} GB")
    print(f"peak: {peak() / 1e3:.2f} GB, {(peak() - before) / 1e3:.2f} GB above the model in its process")
    print(f"time: {time.perf_counter() - wall:.0f} s, of the CPU {time.process_time() - cpu:.0f} s")


if __name__ == "__main__":
    main()
