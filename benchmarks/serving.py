"""Time decoders of one model, as files and in torch: python benchmarks/serving.py [--hidden 256] [--docs FOLDER].

A random Llama with grouped heads is built, and made into files: ours, as it is, at opset 20, and derived for the CPU;
transformers' exporter with its fusions, onnxruntime-genai's builder and mobius-onnx where they are installed. They and
eager and compiled torch are called with the same sizes, in turns, on one thread. Figures are CPU times by those of our
plain file in the same run: 1 is as fast, 2 takes twice as long. A peer that is not installed or fails is named.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WORKLOADS = ((1, 1), (64, 1), (4096, 1), (0, 256))
"""Past and new tokens of one sequence."""

PLAIN = "exportcompat"
_SECONDS, _ROUNDS = 2.0, 60

Call = Callable[[], Any]
Peer = Callable[[int, int], Call]
"""Makes the call of so many new tokens after so many."""


def build_model(layers: int, hidden: int) -> Any:
    """Return a random Llama with 8 heads of queries and 2 of keys."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4000, hidden_size=hidden, intermediate_size=hidden * 8 // 3 // 8 * 8, num_hidden_layers=layers,
        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=8192, initializer_range=0.05,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def eager(model: Any) -> Peer:
    """Call the model itself with a cache that is cut back before each call."""
    import torch
    from transformers import DynamicCache

    def prepare(past: int, new: int) -> Call:
        config = model.config
        shape = (1, config.num_key_value_heads, past, config.hidden_size // config.num_attention_heads)
        tokens = {"input_ids": torch.full((1, new), 7), "position_ids": torch.arange(past, past + new)[None]}
        states = [(torch.randn(shape), torch.randn(shape)) for _ in range(config.num_hidden_layers)]

        def call() -> Any:
            cache = DynamicCache()
            for layer, (key, value) in enumerate(states):
                cache.update(key, value, layer)
            with torch.no_grad():
                return model(**tokens, past_key_values=cache)

        return call

    return prepare


def compiled(model: Any) -> Peer:
    """Call the model compiled for any size."""
    import torch

    return eager(_Compiled(model, torch.compile(model, dynamic=True)))


class _Compiled:
    """A compiled model with the configuration of the model that it is of."""

    def __init__(self, model: Any, call: Any) -> None:
        self.config, self._call = model.config, call

    def __call__(self, **arguments: Any) -> Any:
        return self._call(**arguments)


def onnx(path: Path) -> Peer:
    """Call a file with ONNX Runtime; its inputs are told by their names and types."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def prepare(past: int, new: int) -> Call:
        feeds = {item.name: _feed(item, past, new) for item in session.get_inputs()}
        return lambda: session.run(None, feeds)

    return prepare


def _feed(item: Any, past: int, new: int) -> Any:
    import numpy as np

    if len(item.shape) == 4:
        return np.random.default_rng(0).standard_normal((1, item.shape[1], past, item.shape[3])).astype(np.float32)
    if "mask" in item.name:
        return np.ones((1, past + new), np.int64)
    if "position" in item.name:
        return np.arange(past, past + new)[None]
    return np.full((1, new), 7)


def ours(model: Any, folder: Path) -> dict[str, Path]:
    """Write our files."""
    import torch

    from exportcompat import export

    tokens = torch.randint(3, 99, (2, 7))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    made = export(model, inputs, folder / "model.onnx", verify=False, serve="cpu")
    old = export(model, inputs, folder / "old.onnx", verify=False, opset=20)
    print(made.served, file=sys.stderr)
    derived = {} if made.served is None or made.served.path is None else {"derived for cpu": made.served.path}
    return {PLAIN: made.path, **derived, f"{PLAIN}, opset 20": old.path}


def transformers_file(model: Any, folder: Path) -> Path:
    """Write the file of transformers' exporter, with its fusions for the CPU."""
    import onnx_ir as ir
    import torch
    from transformers import DynamicCache
    from transformers.exporters.configs import OnnxConfig
    from transformers.exporters.exporter_onnx import OnnxExporter

    with torch.no_grad():
        cache = model(torch.full((2, 4), 7), past_key_values=DynamicCache(), use_cache=True).past_key_values
    inputs = {
        "input_ids": torch.full((2, 3), 7), "attention_mask": torch.ones(2, 7, dtype=torch.int64),
        "position_ids": torch.arange(4, 7)[None].expand(2, 3), "past_key_values": cache,
    }  # fmt: skip
    found: Any = OnnxExporter().export_program(model, inputs, OnnxConfig(dynamic=True, ort_fusions="cpu"))
    made = found[0] if isinstance(found, tuple) else found
    program: Any = getattr(made, "model", made)
    ir.save(program, folder / "transformers.onnx")
    return folder / "transformers.onnx"


def built(folder: Path, source: Path, *command: str) -> Path:
    """Write the file of a peer that has a command line, and return it.

    Raises:
        RuntimeError: it fails.
    """
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    found = sorted(folder.rglob("*.onnx"))
    if done.returncode or not found:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RuntimeError(lines[-1] if lines else f"no file of {source}")
    return found[0]


def peers(model: Any, folder: Path) -> dict[str, Callable[[], Peer]]:
    """Return what is timed; each is made when it is asked for, and may fail then."""
    source = folder / "source"
    model.save_pretrained(source)
    genai, mobius, fused = folder / "genai", folder / "mobius", folder / "mobius_cpu"
    builder = ("onnxruntime_genai.models.builder", "-i", str(source), "-o", str(genai), "-p", "fp32", "-e", "cpu")
    return {
        **{name: lambda path=path: onnx(path) for name, path in ours(model, folder).items()},  # type: ignore[misc]
        "torch eager": lambda: eager(model),
        "torch compiled": lambda: compiled(model),
        "transformers' exporter, fused": lambda: onnx(transformers_file(model, folder)),
        "genai's builder": lambda: onnx(built(genai, source, *builder, "-c", str(folder / "cache"))),
        "mobius-onnx": lambda: onnx(built(mobius, source, "mobius", "build", "--model", str(source), str(mobius))),
        "mobius-onnx, cpu": lambda: onnx(
            built(fused, source, "mobius", "build", "--model", str(source), str(fused), "--ep", "cpu")
        ),
    }


def times(made: Mapping[str, Peer], failed: dict[str, str]) -> dict[str, dict[str, float]]:
    """Return by peer and workload the median ratio of the turns, and of the plain file the least seconds."""
    found: dict[str, dict[str, float]] = {name: {} for name in made}
    for past, new in WORKLOADS:
        calls: dict[str, Call] = {}
        for name, prepare in made.items():
            try:
                call = prepare(past, new)
                # The first calls compile, and plan memory.
                call(), call()
                calls[name] = call
            except Exception as error:
                failed[f"{name}, {new} after {past}"] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        for name, figure in _turns(calls).items():
            found[name][f"{new} after {past}"] = figure
    return found


def _turns(calls: Mapping[str, Call]) -> dict[str, float]:
    """Let all peers call in turns, which other work on the machine disturbs alike."""
    rounds: list[dict[str, float]] = []
    spent = 0.0
    while len(rounds) < _ROUNDS and (len(rounds) < 6 or spent < _SECONDS * len(calls)):
        names = list(calls) if len(rounds) % 2 else list(calls)[::-1]
        rounds.append({name: _seconds(calls[name]) for name in names})
        spent += sum(rounds[-1].values())
    ratios = {name: statistics.median(item[name] / item[PLAIN] for item in rounds) for name in calls}
    return {**ratios, PLAIN: min(item[PLAIN] for item in rounds)}


def _seconds(call: Call) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """Return the ratios in Markdown."""
    base = found[PLAIN]
    rows = [["CPU time by that of exportcompat's plain file", *base], ["---"] * (len(base) + 1)]
    for name, row in found.items():
        rows.append(
            [name, *(f"{row[key]:.2f}" if key in row and name != PLAIN else "1" if key in row else "-" for key in base)]
        )
    rows.append(["milliseconds of the plain file", *(f"{1e3 * seconds:.2f}" for seconds in base.values())])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def draw(found: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Draw the ratios as bars."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    base = found[PLAIN]
    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    width = 0.8 / len(found)
    for index, (name, row) in enumerate(found.items()):
        heights = [1.0 if name == PLAIN else row.get(key, 0.0) for key in base]
        axes.bar([place + index * width for place in range(len(base))], heights, width, label=name)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks([place + 0.4 for place in range(len(base))], list(base))
    axes.set_ylabel("CPU time by that of the plain file")
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--docs", type=Path, help="where serving.png goes")
    parser.add_argument("--json", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    made, failed = {}, {}
    with TemporaryDirectory() as folder:
        for name, make in peers(build_model(arguments.layers, arguments.hidden), Path(folder)).items():
            try:
                made[name] = make()
            except Exception as error:
                # A peer fails in its own way; that it does is a result.
                failed[name] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        found = times(made, failed)
    print(table(found))
    for name, reason in failed.items():
        print(f"\nnot timed: {name}: {reason}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    if arguments.docs:
        draw(found, arguments.docs / "serving.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
