"""Measure how fast the tiny GPT generates: python benchmarks/tiny_gpt.py [--json FILE] [--plot FILE].

Eager and ONNX, without and with a key-value cache, and int8: tokens per second of greedy generation after a prompt of
16 tokens, prefill included. Each sample is a fresh process, the variants in turn. Every variant runs with one thread
and with all of them; its figure is the better of the two medians. Threads that wait for each other are slowed down
many times by any other load, so a quiet machine is needed. An aim that is missed makes the exit status 1.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from process_memory import peak

PROMPT = [(7 * index) % 4093 + 3 for index in range(16)]
WARM_UP = 20
SHORT = 200
SLOW = ("eager", "onnx")
"""Without a cache, a run of more tokens than `SHORT` takes a minute, so there is one sample of it."""
FILES = {"onnx": "stateless.onnx", "onnx cached": "decoder.onnx", "onnx cached int8": "decoder.int8.onnx"}
VARIANTS = ("eager", "eager cached", *FILES)
EXACT = VARIANTS[:-1]
AIMS = (("onnx cached", "eager", 20.0), ("onnx cached", "eager cached", 2.0))
"""At the smallest number of tokens, the first is at least so many times as fast as the second."""

Generate = Callable[[list[int], int], list[int]]


@dataclass(frozen=True)
class Sample:
    """One process that generated.

    Attributes:
        variant: what ran.
        tokens: number of new tokens.
        threads: threads within an operator.
        speed: new tokens per second.
        peak: largest resident memory of the process, MB.
        libraries: the same after the imports, before the model, MB.
        found: the new tokens.
    """

    variant: str
    tokens: int
    threads: int
    speed: float
    peak: float
    libraries: float
    found: list[int]


def run(variant: str, tokens: int, threads: int, folder: Path) -> Sample:
    """Generate in this process, after a short run that warms up."""
    make = _onnx if variant in FILES else _eager
    generate, libraries = make(variant, threads, folder)
    generate(PROMPT, WARM_UP)
    begin = time.perf_counter()
    found = generate(PROMPT, tokens)
    seconds = time.perf_counter() - begin
    return Sample(variant, tokens, threads, tokens / seconds, peak(), libraries, found)


def _eager(variant: str, threads: int, folder: Path) -> tuple[Generate, float]:
    import torch

    libraries = peak()
    torch.set_num_threads(threads)
    model = _model()
    sample = model.sample if variant == "eager" else model.sample_cached

    def generate(prompt: list[int], n: int) -> list[int]:
        with torch.inference_mode():
            tokens: list[int] = sample(torch.tensor([prompt]), n, temperature=0)[0, len(prompt) :].tolist()
        return tokens

    return generate, libraries


def _onnx(variant: str, threads: int, folder: Path) -> tuple[Generate, float]:
    import onnxruntime

    libraries = peak()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / FILES[variant]), options, providers=["CPUExecutionProvider"])
    generate = _whole if variant == "onnx" else _cached
    return lambda prompt, n: generate(session, prompt, n), libraries


def _whole(session: Any, prompt: list[int], n: int) -> list[int]:
    """Generate with a call on the whole sequence for each token."""
    import numpy as np

    tokens = list(prompt)
    for _ in range(n):
        (logits,) = session.run(None, {"token_ids": np.array([tokens], np.int64)})
        tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


def _cached(session: Any, prompt: list[int], n: int) -> list[int]:
    """Generate with a call on the last token for each; the outputs are fed back as they are, which copies nothing."""
    import numpy as np

    names = [item.name for item in session.get_inputs()]
    cache = [np.zeros((1, item.shape[1], 0, item.shape[3]), np.float32) for item in session.get_inputs()[3:]]
    new, past, found = np.array([prompt], np.int64), 0, []
    for _ in range(n):
        total = past + new.shape[1]
        inputs = [new, np.ones((1, total), np.int64), np.arange(past, total)[None], *cache]
        logits, *cache = session.run(None, dict(zip(names, inputs, strict=True)))
        found.append(int(logits[0, -1].argmax()))
        new, past = np.array([found[-1:]], np.int64), total
    return found


def agreement(folder: Path, tokens: list[int]) -> float:
    """Return the share of `tokens` after the prompt that int8 finds most likely when it is given those before them."""
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / FILES["onnx cached int8"]))
    ids = np.array([[*PROMPT, *tokens]], np.int64)
    names, shapes = zip(*((item.name, item.shape) for item in session.get_inputs()), strict=True)
    cache = [np.zeros((1, shape[1], 0, shape[3]), np.float32) for shape in shapes[3:]]
    inputs = [ids, np.ones_like(ids), np.arange(ids.shape[1])[None], *cache]
    (logits,) = session.run(["logits"], dict(zip(names, inputs, strict=True)))
    return float((logits[0, len(PROMPT) - 1 : -1].argmax(-1) == tokens).mean())


def export(folder: Path) -> None:
    """Write the files that are measured."""
    from exportcompat.matrix.checks._tiny_gpt_files import export_decoder, export_stateless, quantize

    export_stateless(_model(), folder / FILES["onnx"])
    export_decoder(_model(), folder / FILES["onnx cached"])
    quantize(folder / FILES["onnx cached"], folder / FILES["onnx cached int8"])


def _model() -> Any:
    import torch

    from exportcompat.matrix.models.tiny_gpt import GPTConfig, TinyGPT

    torch.manual_seed(20260101)
    return TinyGPT(GPTConfig(n_positions=1024)).eval()


def measure(lengths: Sequence[int], threads: Sequence[int], repeat: int, folder: Path) -> list[Sample]:
    """Return all samples, the variants in turn."""
    samples: list[Sample] = []
    for tokens in lengths:
        for index in range(repeat):
            for name, number in cells(tokens, threads, samples):
                if index == 0 or not _is_slow(name, tokens):
                    samples.append(start(name, tokens, number, folder))
    return samples


def cells(tokens: int, threads: Sequence[int], samples: Sequence[Sample]) -> list[tuple[str, int]]:
    """Return variants with numbers of threads; a slow one runs with what was faster at a smaller number of tokens."""
    before = Results([sample for sample in samples if sample.tokens < tokens], {})
    slow = [name for name in SLOW if before.lengths and _is_slow(name, tokens)]
    faster = {name: before.threads(name, before.lengths[0]) for name in slow}
    return list(dict.fromkeys((name, faster.get(name, number)) for number in threads for name in VARIANTS))


def _is_slow(variant: str, tokens: int) -> bool:
    return variant in SLOW and tokens > SHORT


def start(variant: str, tokens: int, threads: int, folder: Path) -> Sample:
    """Run one sample in a fresh process.

    This process imports nothing large: a child's peak begins with the memory of the process that started it.
    """
    return Sample(**json.loads(_child("--run", variant, str(tokens), str(threads), str(folder))))


def _child(*arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stderr}")
    return (done.stdout.splitlines() or [""])[-1]


class Results:
    """What was measured, by variant and number of tokens.

    Args:
        samples: all of them.
        sizes: bytes of the files.
    """

    def __init__(self, samples: Sequence[Sample], sizes: dict[str, int]) -> None:
        self.samples, self.sizes = samples, sizes
        self.lengths = sorted({sample.tokens for sample in samples})

    def of(self, variant: str, tokens: int) -> list[Sample]:
        """Return the samples of one cell."""
        return [sample for sample in self.samples if (sample.variant, sample.tokens) == (variant, tokens)]

    def best(self, variant: str, tokens: int) -> list[Sample]:
        """Return the samples of one cell with the number of threads that is faster."""
        groups: dict[int, list[Sample]] = {}
        for sample in self.of(variant, tokens):
            groups.setdefault(sample.threads, []).append(sample)
        return max(groups.values(), key=_speed)

    def threads(self, variant: str, tokens: int) -> int:
        """Return the number of threads that is faster."""
        return self.best(variant, tokens)[0].threads

    def speed(self, variant: str, tokens: int) -> float:
        """Return the median number of tokens per second with that number of threads."""
        return _speed(self.best(variant, tokens))

    def same(self, variant: str, tokens: int) -> float:
        """Return the share of new tokens that are those of eager without a cache, at the same places; the worst one."""
        wanted = self.of("eager", tokens)[0].found
        return min(sum(map(int.__eq__, sample.found, wanted)) for sample in self.of(variant, tokens)) / tokens

    def aims(self) -> list[tuple[str, bool]]:
        """Return a line for each aim, and whether it is reached; other tokens in float32 miss one too."""
        tokens = self.lengths[0]
        lines = []
        for variant, peer, wanted in AIMS:
            ratio = self.speed(variant, tokens) / self.speed(peer, tokens)
            lines.append((f"{variant} / {peer} at {tokens} tokens: {ratio:.1f}x, aim {wanted:g}x", ratio >= wanted))
        equal = all(self.same(name, length) == 1 for name in EXACT for length in self.lengths)
        return [*lines, ("float32 variants give the same tokens", equal)]

    def table(self) -> str:
        """Return a table in Markdown."""
        columns = [f"{length} tokens | range | threads | x eager | same tokens" for length in self.lengths]
        head = f"| variant | {' | '.join(columns)} | peak MB | of it libraries | file MB |"
        return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *map(self._row, VARIANTS)])

    def _row(self, variant: str) -> str:
        cells = [variant]
        for length in self.lengths:
            cells += self._cells(variant, length)
        last = self.best(variant, self.lengths[-1])
        cells += [
            f"{statistics.median(getattr(sample, name) for sample in last):.0f}" for name in ("peak", "libraries")
        ]
        size = f"{self.sizes[variant] / 1e6:.1f}" if variant in self.sizes else ""
        return f"| {' | '.join([*cells, size])} |"

    def _cells(self, variant: str, length: int) -> list[str]:
        speed, best = self.speed(variant, length), self.best(variant, length)
        spread = f"{min(sample.speed for sample in best):.0f}-{max(sample.speed for sample in best):.0f}"
        ratio, same = speed / self.speed("eager", length), self.same(variant, length)
        return [f"{speed:.0f}/s", spread, str(best[0].threads), f"{ratio:.1f}", f"{same:.0%}"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        aims = [{"aim": line, "reached": reached} for line, reached in self.aims()]
        samples = [asdict(sample) for sample in self.samples]
        return {"versions": versions(), "bytes": self.sizes, "aims": aims, "samples": samples}


def _speed(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.speed for sample in samples)


def plot(results: Results, path: Path) -> None:
    """Write a picture of the speeds, one group of bars for each number of tokens."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results.lengths), figsize=(10, 3.2), sharey=True, squeeze=False)
    for axis, length in zip(axes[0], results.lengths, strict=True):
        speeds = [results.speed(name, length) for name in VARIANTS]
        labels = [f"{speed:.0f}  ({speed / speeds[0]:.1f}x)" for speed in speeds]
        axis.bar_label(axis.barh(VARIANTS, speeds, color=["#888888"] * 2 + ["#2266aa"] * 3), labels, padding=3)
        axis.set(title=f"{length:,} new tokens", xlabel="tokens per second", xlim=(0, 1.35 * max(speeds)))
        axis.spines[["top", "right"]].set_visible(False)
        # The first variant stands at the top. The axes share this direction, so it is turned once.
        if not axis.yaxis_inverted():
            axis.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def versions() -> dict[str, str]:
    """Return what was measured."""
    return {name: metadata.version(name) for name in ("torch", "onnx", "onnxscript", "onnxruntime")}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[200, 1000], help="new tokens, at most 1008")
    every = sorted({1, os.cpu_count() or 1})
    parser.add_argument("--threads", type=int, nargs="+", default=every, help="numbers of threads to try")
    parser.add_argument("--repeat", type=int, default=3, help="samples; one where a run takes a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the speeds into FILE; needs matplotlib")
    parser.add_argument("--run", nargs=4, metavar=("VARIANT", "TOKENS", "THREADS", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--export", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.run:
        variant, tokens, threads, folder = arguments.run
        print(json.dumps(asdict(run(variant, int(tokens), int(threads), Path(folder)))))
        return 0
    if arguments.export:
        export(arguments.export)
        return 0
    if arguments.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install matplotlib")
    return report(arguments)


def report(arguments: argparse.Namespace) -> int:
    """Export, measure and print; return the exit status."""
    with exported() as folder:
        sizes = {name: (folder / file).stat().st_size for name, file in FILES.items()}
        results = Results(measure(sorted(arguments.tokens), arguments.threads, arguments.repeat, folder), sizes)
        share = agreement(folder, results.of("eager", results.lengths[-1])[0].found)
    print(f"{results.table()}\n")
    for line, reached in results.aims():
        print(f"{line}: {'reached' if reached else 'MISSED'}")
    print(f"int8 after the same text: {share:.1%} of {results.lengths[-1]} tokens are those of float32")
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    print(", ".join([*(f"{name} {version}" for name, version in versions().items()), load]))
    if arguments.json:
        arguments.json.write_text(json.dumps(results.to_dict()) + "\n", "utf-8")
    if arguments.plot:
        plot(results, arguments.plot)
    return int(not all(reached for _, reached in results.aims()))


@contextmanager
def exported() -> Iterator[Path]:
    """Export in another process, and give the folder."""
    with tempfile.TemporaryDirectory() as name:
        _child("--export", name)
        yield Path(name)


if __name__ == "__main__":
    sys.exit(main())
