"""Time files of one model and torch: python benchmarks/serving.py [--model NAME ...] [--docs FOLDER].

A small random model is built and made into files: ours, as it is, at opset 20, and derived for the CPU; those of
torch's and transformers' exporters, optimum-onnx, onnxruntime-genai's builder and mobius-onnx where they are installed.
Each is compared with eager by what `exportcompat verify` does. They and eager and compiled torch are called with the
same sizes, in turns, on one thread, with one sequence. Figures are CPU times by those of our plain file in the same
run: 1 is as fast, 2 takes twice as long. A peer that is not installed or fails is named.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from serving_models import MODELS, Call, Workload, build_model, eager, inputs_of, workloads_of
from serving_peers import Files, Peers, onnx

PLAIN = "exportcompat"
_SECONDS, _ROUNDS, _LEAST = 2.0, 300, 4

Figures = dict[str, dict[str, float]]
Prepare = Callable[[Workload], Call]


def times(name: str, made: Mapping[str, Prepare], failed: dict[str, str], seconds: float = _SECONDS) -> Figures:
    """Return by peer and workload the median ratio of the turns, and of the plain file the least seconds."""
    found: Figures = {peer: {} for peer in made}
    for load in workloads_of(name):
        calls: dict[str, Call] = {}
        for peer, prepare in made.items():
            try:
                call = prepare(load)
                # The first calls compile, and plan memory.
                call(), call()
                calls[peer] = call
            except Exception as error:
                failed[f"{peer}, {load.name}"] = _reason(error)
        for peer, figure in _turns(calls, seconds).items():
            found[peer][load.name] = figure
    return found


def _turns(calls: Mapping[str, Call], seconds: float) -> dict[str, float]:
    """Let all peers call in turns, which other work on the machine disturbs alike."""
    rounds: list[dict[str, float]] = []
    names, spent = list(calls), 0.0
    while len(rounds) < _ROUNDS and (len(rounds) < _LEAST or spent < seconds * len(calls)):
        # Whoever comes after one that fills the caches would pay for it each time.
        names = [*names[1:], names[0]]
        order = names if len(rounds) % 2 else names[::-1]
        rounds.append({name: _seconds(calls[name]) for name in order})
        spent += sum(rounds[-1].values())
    ratios = {name: statistics.median(item[name] / item[PLAIN] for item in rounds) for name in calls}
    return {**ratios, PLAIN: min(item[PLAIN] for item in rounds)}


def _seconds(call: Call) -> float:
    begin = time.thread_time()
    call()
    # Of each there are two.
    return (time.thread_time() - begin) / 2


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


def compare(name: str, model: Any, files: Mapping[str, Files]) -> dict[str, str]:
    """Return for each peer how many calls of its files agree with eager, within the contract of the file."""
    from exportcompat import apply_patches
    from exportcompat._observer import observe, observe_encoder_decoder

    with apply_patches():
        if name == "whisper":
            observers = {part: item for part, (_, item) in observe_encoder_decoder(model, inputs_of(name)).items()}
        else:
            observers = {"encoder" if name == "bert" else "decoder": observe(model, inputs_of(name))}
    return {peer: _agreeing(observers, made) for peer, made in files.items()}


def _agreeing(observers: Mapping[str, Any], made: Files) -> str:
    rows: list[Any] = []
    for part, observer in observers.items():
        try:
            rows += observer.check_discrepancies(made[part])
        except Exception as error:
            return f"not compared: {_reason(error)}"
    return f"{sum(row.success for row in rows)} of {len(rows)}"


def table(found: Figures, agreeing: Mapping[str, str]) -> str:
    """Return the ratios in Markdown."""
    base = found[PLAIN]
    rows = [["CPU time by that of exportcompat's plain file", *base, "calls right"], ["---"] * (len(base) + 2)]
    for name, row in found.items():
        cells = ["-" if key not in row else "1" if name == PLAIN else f"{row[key]:.2f}" for key in base]
        rows.append([name, *cells, agreeing.get(name, "-")])
    rows.append(["milliseconds of the plain file", *(f"{1e3 * seconds:.2f}" for seconds in base.values()), ""])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def draw(found: Figures, path: Path) -> None:
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


def run(name: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the files of one model, compare and time them, and return all that was found."""
    model = build_model(name, arguments.layers, arguments.hidden)
    files: dict[str, Files] = {}
    failed: dict[str, str] = {}
    for peer, make in Peers(name, model, folder, arguments.optimum).makers().items():
        try:
            files[peer] = make()
        except Exception as error:
            # A peer fails in its own way; that it does is a result.
            failed[peer] = _reason(error)
    made = {**_loaded(files), "torch eager": _twice(eager(model), eager(model))}
    if not arguments.without_compiled:
        fast = _compiled(model)
        made["torch compiled"] = _twice(fast, fast)
    agreeing = {} if arguments.uncompared else compare(name, model, files)
    figures = times(name, made, failed, arguments.seconds)
    return {"ratios": figures, "right": agreeing, "failed": failed}


def _loaded(files: Mapping[str, Files]) -> dict[str, Prepare]:
    """Load all files, and once more the other way round: what is loaded first is up to a sixth slower for it."""
    first = {peer: onnx(made) for peer, made in files.items()}
    second = {peer: onnx(files[peer]) for peer in list(files)[::-1]}
    return {peer: _twice(prepare, second[peer]) for peer, prepare in first.items()}


def _twice(first: Prepare, second: Prepare) -> Prepare:
    def prepare(load: Workload) -> Call:
        one, other = first(load), second(load)
        return lambda: (one(), other())

    return prepare


def _compiled(model: Any) -> Prepare:
    import torch

    return eager(torch.compile(model, dynamic=True), model)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", nargs="*", choices=MODELS, default=["llama"])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of each peer and workload")
    parser.add_argument("--files", type=Path, help="where files stay, and are taken from if they are there")
    parser.add_argument("--optimum", type=Path, help="a Python that has optimum-onnx")
    parser.add_argument("--without-compiled", action="store_true", help="leave out compiled torch, which takes minutes")
    parser.add_argument("--uncompared", action="store_true", help="time alone")
    parser.add_argument("--docs", type=Path, help="where serving.png goes")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args()


def main() -> int:
    """Run the benchmark."""
    arguments = _arguments()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        for name in arguments.model:
            folder = ((arguments.files or Path(temporary)) / name).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            found[name] = run(name, folder, arguments)
            print(f"{name}\n\n{table(found[name]['ratios'], found[name]['right'])}\n")
            for peer, reason in found[name]["failed"].items():
                print(f"not timed: {peer}: {reason}\n", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    if arguments.docs:
        draw(found[arguments.model[0]]["ratios"], arguments.docs / "serving.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
