"""Export models that live on a GPU, and run what comes of it there: python benchmarks/gpu.py [--seconds 400].

Random models of real widths with few layers, in float16 and bfloat16, are made into a file of ours, one derived for
CUDA, and a program of `torch.export`. Each is called with texts that the export did not see, with left padding, in
chunks and after a long past, beside eager on the same GPU. All are compared with eager in float32 with the same
weights: a file may be twice as far from that as eager in the small type is. Times are wall clock with the GPU
synchronized, in turns. Without onnxruntime-gpu, a file has that for its result. `--device cpu` tries the script.
"""

import argparse
import copy
import json
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

DTYPES = ("float16", "bfloat16")
CALLS = ((2, 0, 37, 3), (2, 37, 1, 3), (3, 130, 5, 9), (1, 0, 300, 0), (1, 1500, 1, 0))
"""Texts, past and new tokens, and how much padding the first text has on its left."""

WORKLOADS = ((64, 1), (4096, 1), (0, 2048))
"""Past and new tokens of the one text that is timed."""

FLOOR = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""What a type may be off where eager happens to be exact: two units of its last place."""

Call = Callable[[], Sequence[torch.Tensor]]
Runner = Callable[[Mapping[str, torch.Tensor]], Sequence[torch.Tensor]]


@dataclass
class Row:
    """What became of one way for one model.

    Attributes:
        model: its name.
        dtype: of weights and states.
        way: what was run.
        problem: why it was not; empty if it was.
        largest: the largest distance from eager in float32, as a share of the largest element, over all calls.
        typical: the same of the root of the mean squares.
        limits: what eager in the small type is off, twice, by both measures.
        seconds: of the export.
        milliseconds: by workload.
    """

    model: str
    dtype: str
    way: str
    problem: str = ""
    largest: float = 0.0
    typical: float = 0.0
    limits: tuple[float, float] = (0.0, 0.0)
    seconds: float = 0.0
    milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return `right`, `wrong`, or why there is no answer."""
        if self.problem:
            return self.problem
        is_right = self.largest <= self.limits[0] and self.typical <= self.limits[1]
        return "right" if is_right else "wrong"


def models() -> dict[str, Callable[[], Any]]:
    """Return what is built, by name: grouped heads, a window, experts, sinks, an encoder."""
    import transformers as hf

    text = {"vocab_size": 32000, "max_position_embeddings": 8192}
    wide = {**text, "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 16, "head_dim": 128}
    experts = {
        **text, "hidden_size": 1024, "moe_intermediate_size": 512, "num_experts": 64, "num_experts_per_tok": 8,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 128,
        "intermediate_size": 2048,
    }  # fmt: skip
    sinks = {
        **text, "hidden_size": 1024, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4,
    }  # fmt: skip
    kinds = ["sliding_attention", "full_attention"] * 2
    window = {**wide, "num_hidden_layers": 4, "num_key_value_heads": 4, "sliding_window": 256, "layer_types": kinds}
    return {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**wide, num_hidden_layers=8, num_key_value_heads=4)),
        "gemma3, window of 256": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**window)),
        "bert": lambda: hf.BertModel(hf.BertConfig(num_hidden_layers=6)),
        "qwen3_moe, 8 of 64": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(**experts)),
        "gpt_oss, 4 of 32": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**sinks)),
    }


def built(make: Callable[[], Any], dtype: str, device: str) -> Any:
    """Return a model with weights from a fixed seed that are large enough for logits that tell."""
    torch.manual_seed(0)
    model = make().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight.shape[-1] ** -0.5)
    return model.to(device, getattr(torch, dtype))


def cache_of(feeds: Mapping[str, torch.Tensor]) -> Any:
    """Return a cache with the keys and values among the inputs of a file, empty ones too."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(sum(name.endswith(".key") for name in feeds)):
        cache.update(feeds[f"past_key_values.{layer}.key"], feeds[f"past_key_values.{layer}.value"], layer)
    return cache


def flat(result: Any) -> list[torch.Tensor]:
    """Return logits, then keys and values layer by layer."""
    layers = result.past_key_values.layers
    return [result.logits, *(item for layer in layers for item in (layer.keys, layer.values))]


class Eager:
    """A model, called as its file is: with tokens, a mask, positions and keys and values by their names in the file.

    Args:
        model: a decoder with a cache of keys and values, or an encoder.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.has_cache = bool(model.config.use_cache) if hasattr(model.config, "use_cache") else False
        self.has_cache &= hasattr(model, "generate")

    def __call__(self, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return logits, then keys and values layer by layer; of an encoder what it gives."""
        tokens = {name: value for name, value in feeds.items() if not name.startswith("past_key_values")}
        with torch.no_grad():
            if not self.has_cache:
                return list(self._model(**tokens).to_tuple())
            return flat(self._model(**tokens, past_key_values=cache_of(feeds)))

    def states(self, tokens: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return keys and values by name; without tokens they are empty."""
        ids = tokens["input_ids"]
        count, one = ids.shape[1], ids.new_ones((ids.shape[0], 1))
        made = self(tokens if count else {"input_ids": one, "attention_mask": one})[1:]
        names = (f"past_key_values.{index // 2}.{('key', 'value')[index % 2]}" for index in range(len(made)))
        return {name: item[:, :, :count] for name, item in zip(names, made, strict=True)}


def feeds_of(model: Any, eager: Eager, call: tuple[int, int, int, int]) -> dict[str, torch.Tensor]:
    """Return the inputs of one call; the past is what eager has made of the tokens before."""
    texts, past, new, padding = call
    draw = torch.Generator().manual_seed(past + new)
    tokens = torch.randint(3, 1000, (texts, past + new), generator=draw).to(model.device)
    mask = torch.ones_like(tokens)
    mask[0, :padding] = 0
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    if not eager.has_cache:
        return {"input_ids": tokens, "attention_mask": mask}
    before = {"input_ids": tokens[:, :past], "attention_mask": mask[:, :past], "position_ids": positions[:, :past]}
    now = {"input_ids": tokens[:, past:], "attention_mask": mask, "position_ids": positions[:, past:]}
    return now | eager.states(before)


class File:
    """An ONNX file in ONNX Runtime, whose inputs and outputs stay on the GPU.

    Args:
        path: the file.
        like: gives as many tensors, of the same shapes and in the same order, as the file does.
        device: where it runs.
    """

    def __init__(self, path: Path, like: Eager, device: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self._provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
        providers = list(dict.fromkeys([self._provider, "CPUExecutionProvider"]))
        self._session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        if self._session.get_providers()[0] != self._provider:
            raise RuntimeError(f"ONNX Runtime runs it by {self._session.get_providers()[0]}")
        self._like, self._device = like, device
        self._facts = self._session.get_modelmeta().custom_metadata_map
        self._takes = [item.name for item in self._session.get_inputs()]
        self._gives = [item.name for item in self._session.get_outputs()]

    def __call__(self, feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs."""
        return list(self.prepared(feeds, self._like(feeds))())

    def takes(self, feeds: Mapping[str, torch.Tensor]) -> bool:
        """Say whether a call is within the file's contract: one that is derived takes chunks of one text alone."""
        (texts, new), whole = feeds["input_ids"].shape, feeds["attention_mask"].shape[1]
        return not ("grouped-query" in self._facts.get("exportcompat.derivations", "") and whole > new > 1 < texts)

    def prepared(self, feeds: Mapping[str, torch.Tensor], like: Sequence[torch.Tensor]) -> Call:
        """Return a call of these inputs that writes to the same outputs each time."""
        binding = self._session.io_binding()
        kept = [feeds[name].contiguous() for name in self._takes]
        made = [torch.empty_like(item, memory_format=torch.contiguous_format) for item in like[: len(self._gives)]]
        if "last-logits" in self._facts.get("exportcompat.derivations", ""):
            made[0] = made[0][:, -1:].contiguous()
        for name, tensor in zip(self._takes, kept, strict=True):
            binding.bind_input(name, self._device, 0, _element(tensor), list(tensor.shape), tensor.data_ptr())
        for name, tensor in zip(self._gives, made, strict=True):
            binding.bind_output(name, self._device, 0, _element(tensor), list(tensor.shape), tensor.data_ptr())

        def call() -> list[torch.Tensor]:
            self._session.run_with_iobinding(binding)
            return made if kept else []

        return call


def _element(tensor: torch.Tensor) -> int:
    """Return ONNX' number of a dtype."""
    from onnx import TensorProto

    names = {torch.float16: "FLOAT16", torch.bfloat16: "BFLOAT16", torch.float32: "FLOAT", torch.int64: "INT64"}
    return int(getattr(TensorProto, names[tensor.dtype]))


def sample(device: str) -> dict[str, torch.Tensor]:
    """Return what is exported with."""
    tokens = torch.randint(3, 1000, (2, 7), generator=torch.Generator().manual_seed(0)).to(device)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def by_file(model: Any, folder: Path, device: str) -> dict[str, Callable[[], Runner]]:
    """Return what makes the runners of files, by the way in which each file is made."""
    from exportcompat import export

    eager, plain = Eager(model), folder / "model.onnx"

    def made(path: Path, opset: int | None) -> File:
        return File(export(model, sample(device), path, verify=False, opset=opset).path, eager, device)

    def derived() -> File:
        target = "cuda" if device == "cuda" else "cpu"
        # `GroupQueryAttention` is put in the place of `Attention`, which opset 23 has.
        found = export(model, sample(device), folder / "served.onnx", verify=False, serve=target, opset=23).served
        print(found, file=sys.stderr)
        if found is None or found.path is None:
            raise RuntimeError("; ".join(map(str, found.attempts)) if found else "nothing was tried")
        return File(found.path, eager, device)

    ways: dict[str, Callable[[], Runner]] = {
        "file": lambda: made(plain, None),
        "file, opset 23": lambda: made(folder / "newer.onnx", 23),
    }
    return {**ways, "file with serve=, opset 23": derived} if eager.has_cache else ways


def by_program(model: Any, *, with_patches: bool) -> Runner:
    """Return what runs a program of `torch.export` inside a scope, on the device that the model is on."""
    from exportcompat import InputObserver, apply_patches

    observer, given = InputObserver(), sample(str(model.device))
    with apply_patches(), observer(model, store_n_calls=3), torch.no_grad():
        if Eager(model).has_cache:
            model.generate(**given, max_new_tokens=4, do_sample=False)
        else:
            model(**given)
            model(**{name: torch.cat([value, value], 1) for name, value in given.items()})
    shapes = observer.infer_dynamic_shapes(set_batch_dimension_for=True, names=False)
    kwargs = observer.infer_arguments()
    with apply_patches() if with_patches else nullcontext(), torch.no_grad():
        program = torch.export.export(model, (), kwargs, dynamic_shapes=shapes, strict=False).module()

    def run(feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        taken = {name: feeds[name] for name in kwargs if name in feeds}
        # What the model calls its cache depends on the release of transformers.
        caches = [name for name in kwargs if name not in feeds]
        with torch.no_grad():
            if not caches:
                return list(program(**taken).to_tuple())
            # Layers that slide are of another class, which the program was captured with.
            structure = torch.utils._pytree.tree_structure(kwargs[caches[0]])
            states = [value for name, value in feeds.items() if name.startswith("past_key_values")]
            taken[caches[0]] = torch.utils._pytree.tree_unflatten(states, structure)
            return flat(program(**taken))

    return run


def distances(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> tuple[float, float]:
    """Return the largest, and the root of the mean square, over those of `wanted`; the worst tensor counts."""
    worst = [0.0, 0.0]
    for one, other in zip(found, wanted, strict=True):
        if one.shape != other.shape:
            raise ValueError(f"shape {list(one.shape)}; wanted {list(other.shape)}")
        off, scale = (one.double() - other.double()).abs(), other.double()
        shares = (off.max() / scale.abs().max(), off.square().mean().sqrt() / scale.square().mean().sqrt())
        worst = [max(old, float(new.nan_to_num(nan=float("inf")))) for old, new in zip(worst, shares, strict=True)]
    return worst[0], worst[1]


def compare(row: Row, run: Runner, calls: Sequence[tuple[Any, Any, Any]]) -> None:
    """Note how far a way is off over all calls, and how far it may be: twice what eager is, per call."""
    floor, worst = FLOOR[row.dtype], list[float]()
    for feeds, small, exact in calls:
        if isinstance(run, File) and not run.takes(feeds):
            continue
        made = run(feeds)
        # Outputs of padding mean nothing, and neither eager nor a file owes anything there.
        cut = [_kept([item[0][:, -made[0].shape[1] :], *item[1:]], feeds) for item in (made, small, exact)]
        found, eager = distances(cut[0], cut[2]), distances(cut[1], cut[2])
        excess = [one / max(2 * other, floor) for one, other in zip(found, eager, strict=True)]
        if not worst or max(excess) >= max(worst):
            worst = excess
            row.largest, row.typical = found
            row.limits = (max(2 * eager[0], floor), max(2 * eager[1], floor))


def _kept(tensors: Sequence[torch.Tensor], feeds: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return logits, keys and values without those of padding, as rows."""
    mask, logits = feeds["attention_mask"].bool(), tensors[0]
    rows = [logits[mask[:, -logits.shape[1] :]]]
    others = (item.transpose(1, 2) if item.dim() == 4 else item for item in tensors[1:])
    return rows + [item[mask[:, -item.shape[1] :]] if item.dim() == 4 else item for item in others]


def measure(row: Row, run: Runner, model: Any, eager: Eager) -> None:
    """Note the milliseconds of a way beside eager, in turns."""
    for past, new in WORKLOADS if eager.has_cache else ((0, 512),):
        feeds = feeds_of(model, eager, (1, past, new, 0))
        # A file's outputs are made once; a program and eager make theirs anew, as they do in use.
        call = run.prepared(feeds, eager(feeds)) if isinstance(run, File) else partial(run, feeds)
        spent: dict[str, list[float]] = {"way": [], "eager": []}
        for turn in range(13):
            for name, one in (("way", call), ("eager", partial(eager, feeds))):
                elapsed = _milliseconds(one, model.device.type)
                spent[name] += [elapsed] if turn > 2 else []
        way, base = (statistics.median(spent[name]) for name in ("way", "eager"))
        row.milliseconds[f"{new} after {past}"] = way
        row.milliseconds[f"{new} after {past}, eager"] = base


def _milliseconds(call: Callable[[], Any], device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    wait()
    begin = time.perf_counter()
    call()
    wait()
    return 1e3 * (time.perf_counter() - begin)


def rows_of(name: str, dtype: str, device: str, *, timed: bool) -> Iterator[Row]:
    """Give the rows of one model, each as soon as it is known."""
    from exportcompat import apply_patches

    model = built(models()[name], dtype, device)
    eager, exact = Eager(model), Eager(copy.deepcopy(model).float())
    calls = []
    for call in CALLS:
        feeds = feeds_of(model, eager, call) if eager.has_cache or call[0] + call[1] < 512 else None
        if feeds is not None:
            wide = {key: value.float() if value.is_floating_point() else value for key, value in feeds.items()}
            calls.append((feeds, eager(feeds), exact(wide)))
    with TemporaryDirectory() as folder:
        ways = {
            "torch.export, without patches": lambda: by_program(model, with_patches=False),
            "torch.export": lambda: by_program(model, with_patches=True),
            **by_file(model, Path(folder), device),
        }
        for way, make in ways.items():
            row, begin = Row(name, dtype, way), time.perf_counter()
            try:
                run = make()
                row.seconds = time.perf_counter() - begin
                # The cache that a program is given is taken apart by the pytree specs.
                with nullcontext() if isinstance(run, File) else apply_patches():
                    compare(row, run, calls)
                    if timed and row.verdict == "right":
                        measure(row, run, model, eager)
            except Exception as error:
                # What a way raises is its result.
                row.problem = f"{type(error).__name__}: {error}".strip().splitlines()[0][:200]
                traceback.print_exc(limit=-3, file=sys.stderr)
            yield row


def table(rows: Sequence[Row]) -> str:
    """Return the rows in Markdown."""
    head = ["model", "dtype", "way", "found", "largest (limit)", "typical (limit)", "export, s", "ms by that of eager"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        shares = [f"{a:.1e} ({b:.1e})" for a, b in zip((row.largest, row.typical), row.limits, strict=True)]
        ratios = [
            f"{spent / row.milliseconds[f'{call}, eager']:.2f} ({call})"
            for call, spent in row.milliseconds.items()
            if not call.endswith("eager")
        ]
        lines.append([row.model, row.dtype, row.way, row.verdict, *shares, f"{row.seconds:.0f}", ", ".join(ratios)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def header(device: str) -> str:
    """Return what it was run with."""
    from importlib.metadata import version

    names = ("torch", "transformers", "onnxscript", "onnx")
    card = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    try:
        import onnxruntime

        runtime = f"onnxruntime {onnxruntime.__version__} with {', '.join(onnxruntime.get_available_providers())}"
    except ImportError:
        runtime = "no onnxruntime"
    return f"{card}; {', '.join(f'{name} {version(name)}' for name in names)}; {runtime}"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=400, help="no model is begun after so many")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES, choices=DTYPES)
    parser.add_argument("--json", type=Path, help="where the rows go, each as it comes")
    parser.add_argument("--untimed", action="store_true")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch has no GPU here; --device cpu tries the script without one")
    warnings.filterwarnings("ignore")
    begin, rows = time.perf_counter(), []
    print(header(arguments.device), flush=True)
    names = [name for name in models() if not arguments.only or name.split(",")[0] in arguments.only]
    for name, dtype in [(name, dtype) for name in names for dtype in arguments.dtypes]:
        if time.perf_counter() - begin > arguments.seconds:
            print(f"left out, as {arguments.seconds:.0f} s are over: {name}, {dtype}")
            continue
        for row in rows_of(name, dtype, arguments.device, timed=not arguments.untimed):
            rows.append(row)
            print(table([row]).splitlines()[-1], flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps([asdict(item) for item in rows], indent=1) + "\n", "utf-8")
    print(f"\n{table(rows)}")
    return int(not rows)


if __name__ == "__main__":
    sys.exit(main())
