"""Draw what things cost against their size: python benchmarks/growth.py [--only NAME ...] [--docs FOLDER].

Entering a scope by models that are loaded, the time of an export by layers, the nodes of a graph by experts, the time
of a block of experts by tokens, of a token by its past with a sliding window, time and memory of a vision tower by
patches, and of a layer with the gated delta rule by tokens, each beside a peer in the same run. Times are of the CPU,
each sample is a fresh process with one thread, and the peers take turns. The exponent is the slope of the logarithms: 1
grows with the size.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from process_memory import peak

HERE = Path(__file__).resolve().parent


@dataclass
class Curve:
    """What one thing costs.

    Attributes:
        title: of the picture, with what `sizes` count.
        unit: of the costs.
        sizes: growing.
        costs: one for each size, by who pays.
    """

    title: str
    unit: str
    sizes: list[int]
    costs: dict[str, list[float]]

    def exponent(self, name: str) -> float:
        """Return the slope of the logarithms between the first and the last size."""
        costs = self.costs[name]
        return math.log(costs[-1] / costs[0]) / math.log(max(self.sizes[-1], 1) / max(self.sizes[0], 1))

    def table(self) -> str:
        """Return the figures in Markdown."""
        head = [f"{self.title}, {self.unit}", *map(str, self.sizes), "exponent"]
        rows = [[name, *map(_number, costs), f"{self.exponent(name):.2f}"] for name, costs in self.costs.items()]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def entry(models: int, who: str) -> float:
    """Return the milliseconds of a later entry with the modules of so many models loaded."""
    import statistics

    from entry import PATCHERS, entry_time, import_models

    import_models(models)
    scope = PATCHERS[who]()
    samples = [entry_time(scope) for _ in range(25)]
    return statistics.median(samples[5:])


def export_time(layers: int, who: str) -> float:
    """Return the CPU seconds of an export of a Llama of 64 units; the first one in the process is not counted."""
    for count in (1, layers):
        model, inputs, shapes = _llama(count)
        begin = time.process_time()
        _export(model, inputs, shapes, who)
    return time.process_time() - begin


def expert_nodes(experts: int, who: str) -> float:
    """Return the nodes of the graph of a block of experts, those of the bodies of loops included."""
    program = _export(*_experts(experts, 64, 32), who)
    return len(list(program.model.graph.all_nodes()))


def expert_time(tokens: int, who: str) -> float:
    """Return the milliseconds of a block of 64 experts of which each token has chosen 8."""
    import torch

    torch.set_num_threads(1)
    module, _, shapes = _experts(64, 256, 128)
    inputs = _routed(tokens, 64, 256)
    if who == "eager":
        call: Callable[[], Any] = lambda: module(*inputs)  # noqa: E731 (one of two)
    else:
        call = _session(_export(module, _routed(5, 64, 256), shapes, who), inputs)
    with torch.no_grad():
        call()
        return 1e3 * min(_seconds(call) for _ in range(7))


def window_time(past: int, who: str) -> float:
    """Return the milliseconds of one token after so many, of a Mistral whose layers have a window of 256 tokens."""
    import torch

    torch.set_num_threads(1)
    with torch.no_grad():
        call = _next_token(past) if who == "eager" else _next_token_of_file(past, who)
        call()
        return 1e3 * min(_seconds(call) for _ in range(7))


def _next_token(past: int) -> Callable[[], Any]:
    """Return a call of eager with one token; its cache grows by that each time."""
    import torch

    model = _mistral()
    cache = model(torch.full((1, past), 7), use_cache=True).past_key_values
    return lambda: model(torch.full((1, 1), 7), past_key_values=cache, use_cache=True)


def _next_token_of_file(past: int, cache: str) -> Callable[[], Any]:
    """Return a call with one token of a file whose layers hold the full past, or their window."""
    import onnx_ir
    import torch

    from exportcompat import export

    sizes = {"batch": 1, "sequence": 1, "total_sequence": past + 1, "past_sequence": past}
    sizes["past_window_256"] = min(past, 255)
    with TemporaryDirectory() as folder:
        text = {"input_ids": torch.full((2, 6), 7)}
        path = export(_mistral(), text, folder, cache=cache, verify=False).path  # type: ignore[arg-type]
        values = onnx_ir.load(path).graph.inputs
        shapes = [[sizes.get(str(dim), dim) for dim in value.shape or ()] for value in values]
        made = (
            torch.randn(shape) if value.dtype == onnx_ir.DataType.FLOAT else torch.ones(shape, dtype=torch.int64)
            for value, shape in zip(values, shapes, strict=True)
        )
        return _loaded(str(path), list(made))


def _mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2}
    return MistralForCausalLM(MistralConfig(num_hidden_layers=2, vocab_size=1000, sliding_window=256, **sizes)).eval()


def encoder_time(patches: int, who: str) -> float:
    """Return the milliseconds of a tower of Qwen2.5-VL for one square image of so many patches."""
    with TemporaryDirectory() as folder:
        call = _encoder_call(patches, _encoder_file(folder, who))
        call()
        return 1e3 * min(_seconds(call) for _ in range(3))


def encoder_memory(patches: int, who: str) -> float:
    """Return the MB that such a call adds to the peak of a process that has made nothing else."""
    from multiprocessing import get_context

    with TemporaryDirectory() as folder, get_context("spawn").Pool(1) as processes:
        return processes.apply(_added_memory, (_encoder_call, patches, _encoder_file(folder, who)))


def _added_memory(made: Callable[..., Callable[[], Any]], *given: Any) -> float:
    call = made(*given)
    before = peak()
    call()
    return peak() - before


def _encoder_file(folder: str, who: str) -> str | None:
    """Return the path of a tower's file, exported with two small images; None for eager."""
    if who == "eager":
        return None
    import torch

    shapes = {key: {0: torch.export.Dim.DYNAMIC} for key in ("hidden_states", "grid_thw")}
    _export(_encoder(), _images((16, 16), (8, 12)), shapes, who).save(f"{folder}/encoder.onnx")
    return f"{folder}/encoder.onnx"


def _encoder_call(patches: int, path: str | None) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    inputs, model = _images((math.isqrt(patches), math.isqrt(patches))), _encoder()
    return torch.no_grad()(lambda: model(**inputs)) if path is None else _loaded(path, list(inputs.values()))


def _encoder() -> Any:
    """Return a tower with windows in one layer and full attention in the other."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
    from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_heads": 4, "out_hidden_size": 256}
    config = Qwen2_5_VLVisionConfig(depth=2, fullatt_block_indexes=[1], **sizes)
    return Qwen2_5_VisionTransformerPretrainedModel(config).eval()


def _images(*sides: tuple[int, int]) -> dict[str, Any]:
    """Return images of so many rows and columns of patches."""
    import torch

    grids = torch.tensor([(1, *side) for side in sides])
    return {"hidden_states": torch.randn(int(grids.prod(1).sum()), 3 * 2 * 14 * 14), "grid_thw": grids}


LAYERS = {"gated": "Qwen3NextGatedDeltaNet", "kimi": "KimiLinearDeltaAttention"}
"""The class of a layer with the delta rule, of 8 heads of 64 each: with a decay for a head, and for a channel."""


def layer_time(name: str, tokens: int, who: str) -> float:
    """Return the milliseconds of a layer with the delta rule for one text of so many tokens."""
    with TemporaryDirectory() as folder:
        call = _layer_call(name, tokens, _layer_file(name, folder, who))
        call()
        return 1e3 * min(_seconds(call) for _ in range(3))


def layer_memory(name: str, tokens: int, who: str) -> float:
    """Return the MB that such a call adds to the peak of a process that has made nothing else."""
    from multiprocessing import get_context

    with TemporaryDirectory() as folder, get_context("spawn").Pool(1) as processes:
        return processes.apply(_added_memory, (_layer_call, name, tokens, _layer_file(name, folder, who)))


def _layer_file(name: str, folder: str, who: str) -> str | None:
    """Return the path of a layer's file; None for eager."""
    import torch

    if who == "eager":
        return None
    shapes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    _export(_layer(name), (torch.randn(2, 7, 512),), shapes, who).save(f"{folder}/layer.onnx")
    return f"{folder}/layer.onnx"


def _layer_call(name: str, tokens: int, path: str | None) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs, layer = torch.randn(1, tokens, 512), _layer(name)
    return torch.no_grad()(lambda: layer(inputs)) if path is None else _loaded(path, [inputs])


def _layer(name: str) -> Any:
    from transformers import AutoModel, KimiLinearConfig, Qwen3NextConfig

    sizes: dict[str, Any] = {"hidden_size": 512, "num_hidden_layers": 1, "layer_types": ["linear_attention"]}
    heads = {"linear_num_key_heads": 8, "linear_num_value_heads": 8, "linear_num_heads": 8}
    widths = {"linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_head_dim": 64}
    config = {"gated": Qwen3NextConfig, "kimi": KimiLinearConfig}[name]
    rest = {"num_experts": 2, "num_local_experts": 2, "vocab_size": 64, "pad_token_id": 0, "eos_token_id": 1}
    model = AutoModel.from_config(config(**sizes, **heads, **widths, **rest)).eval()
    return next(part for part in model.modules() if type(part).__name__ == LAYERS[name])


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def _session(program: Any, inputs: Sequence[Any]) -> Callable[[], Any]:
    with TemporaryDirectory() as folder:
        program.save(f"{folder}/model.onnx")
        return _loaded(f"{folder}/model.onnx", inputs)


def _loaded(path: str, inputs: Sequence[Any]) -> Callable[[], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {item.name: tensor.numpy() for item, tensor in zip(session.get_inputs(), inputs, strict=True)}
    return lambda: session.run(None, feeds)


def _llama(layers: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 1000}
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, use_cache=False, **sizes)).eval()
    tokens, axis = torch.ones(2, 7, dtype=torch.int64), torch.export.Dim.DYNAMIC
    return (
        model,
        {"input_ids": tokens, "attention_mask": tokens},
        {key: {0: axis, 1: axis} for key in ("input_ids", "attention_mask")},
    )


def _experts(count: int, hidden: int, inner: int) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    import torch
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    config = Qwen3MoeConfig(hidden_size=hidden, moe_intermediate_size=inner, num_experts=count)
    config._experts_implementation = "grouped_mm"
    module = Qwen3MoeExperts(config).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=hidden**-0.5)
    return module, _routed(5, count, hidden), ({0: torch.export.Dim.DYNAMIC},) * 3


def _routed(tokens: int, experts: int, hidden: int) -> tuple[Any, ...]:
    import torch

    torch.manual_seed(0)
    shares, chosen = torch.randn(tokens, experts).softmax(-1).topk(8)
    return torch.randn(tokens, hidden), chosen, shares


def _export(model: Any, inputs: Any, shapes: Any, who: str) -> Any:
    import torch

    scopes: dict[str, Callable[[], AbstractContextManager[Any]]] = {"plain torch": nullcontext}
    if who not in scopes:
        from entry import PATCHERS

        scopes[who] = PATCHERS[who]()
    given: dict[str, Any] = {"kwargs": inputs} if isinstance(inputs, dict) else {"args": inputs}
    with scopes[who]():
        return torch.onnx.export(model, **given, dynamic_shapes=shapes, dynamo=True, optimize=True, verbose=False)


CURVES: dict[str, tuple[str, str, Callable[[int, str], float], list[int], list[str]]] = {
    "entry": ("Later entry, models loaded", "ms", entry, [1, 8, 47], ["exportcompat", "transformers"]),
    "export": ("Export of Llama, layers", "CPU s", export_time, [4, 8, 16, 32], ["exportcompat", "plain torch"]),
    "nodes": ("A block of experts, experts", "nodes", expert_nodes, [8, 32, 128], ["exportcompat"]),
    "experts": ("64 experts, tokens", "ms", expert_time, [1, 128, 512, 2048], ["exportcompat", "eager"]),
    "window": ("One token, window 256, past", "ms", window_time, [256, 1024, 4096, 16384], ["window", "full", "eager"]),
    "patches": ("One image, patches", "ms", encoder_time, [256, 1024, 4096, 16384], ["exportcompat", "eager"]),
    "memory": ("One image, patches", "MB", encoder_memory, [256, 1024, 4096, 16384], ["exportcompat", "eager"]),
    **{
        f"{name}{what}": (title, unit, partial(measured, name), sizes, ["exportcompat", "eager"])
        for name, title in (("gated", "Gated delta net, tokens"), ("kimi", "Kimi delta attention, tokens"))
        for what, unit, measured, sizes in (
            ("", "ms", layer_time, [256, 1024, 2048, 4096]),
            # What a call of fewer tokens adds is less than what loading took.
            ("_memory", "MB", layer_memory, [1024, 2048, 4096]),
        )
    },
}


def curve(name: str) -> Curve:
    """Measure one curve, every sample in a process of its own."""
    title, unit, _, sizes, names = CURVES[name]
    costs: dict[str, list[float]] = {who: [] for who in names}
    for size in sizes:
        for who in names:
            command = [sys.executable, __file__, "--sample", name, str(size), who]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            costs[who].append(json.loads(done.stdout.splitlines()[-1]))
    return Curve(title, unit, sizes, costs)


def plot(found: Curve, path: Path) -> None:
    """Draw a curve with logarithmic axes, so that the exponent is the slope."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(5, 3.4))
    for name, costs in found.costs.items():
        axis.plot(found.sizes, costs, marker="o", label=f"{name}, exponent {found.exponent(name):.2f}")
    axis.set(xscale="log", yscale="log", xlabel=found.title, ylabel=found.unit)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print tables, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CURVES, default=list(CURVES), help="default: all")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="also draw growth_<name>.png there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure to FILE")
    parser.add_argument("--sample", nargs=3, metavar=("NAME", "SIZE", "WHO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.sample:
        name, size, who = arguments.sample
        sys.path.insert(0, str(HERE))
        sys.stdout.write(f"\n{json.dumps(CURVES[name][2](int(size), who))}\n")
        return 0
    found = {name: curve(name) for name in arguments.only}
    sys.stdout.write("\n\n".join(item.table() for item in found.values()) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({name: asdict(item) for name, item in found.items()}) + "\n", "utf-8")
    for name, item in found.items() if arguments.docs else ():
        plot(item, arguments.docs / f"growth_{name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
