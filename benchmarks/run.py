"""Measure what exportcompat costs, next to its peers in the same run: python benchmarks/run.py [--json FILE].

Every figure is a median. What happens once in a process is measured in fresh processes, the peers in turn, so that a
slow moment of the machine meets all of them. A table in Markdown goes to stdout. A target that is missed is marked
and makes the exit status 1.
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SOURCES = ("src", "registry", "patches", "matrix", "pyproject.toml", "setup.py", "README.md", "LICENSE")
PACKAGES = ("exportcompat", "packaging", "torch", "transformers", "onnx-diagnostic")
TORCH = [f"2.{minor}.{patch}" for minor in range(6, 16) for patch in (0, 1)]
TRANSFORMERS = ["4.44.2", "4.50.0", "4.53.3", "4.54.1", "4.56.2", "4.57.6", "5.0.0", "5.5.0", "5.13.0", "5.23.0"]


@dataclass
class Row:
    """One line of the table.

    Attributes:
        what: what was measured.
        unit: of all figures.
        samples: of exportcompat.
        peers: samples by peer.
        target: the largest median that is good enough; None where there is none.
    """

    what: str
    unit: str
    samples: list[float]
    peers: dict[str, list[float]] = field(default_factory=dict)
    target: float | None = None

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.samples)

    @property
    def is_missed(self) -> bool:
        """Say whether there is a target and the figure is above it."""
        return self.target is not None and self.median > self.target

    def to_dict(self) -> dict[str, Any]:
        """Return all samples, the medians, and each peer's median as a multiple of ours."""
        medians = {peer: statistics.median(samples) for peer, samples in self.peers.items()}
        ratios = {peer: value / self.median for peer, value in medians.items() if self.median}
        return {**asdict(self), "median": self.median, "peer_medians": medians, "ratios": ratios}

    def cells(self) -> list[str]:
        """Return the cells of the table."""
        target = "" if self.target is None else f"<= {_number(self.target)}{' MISSED' if self.is_missed else ''}"
        spread = f"{_number(min(self.samples))}-{_number(max(self.samples))}"
        return [self.what, self.unit, _number(self.median), spread, target, "; ".join(map(self._peer, self.peers))]

    def _peer(self, name: str) -> str:
        value = statistics.median(self.peers[name])
        ratio = f" ({value / self.median:.2g}x)" if self.median else ""
        return f"{name} {_number(value)}{ratio}"


def import_rows(repeat: int) -> list[Row]:
    """Measure fresh processes that import exportcompat, what it needs, and nothing."""
    codes = {"exportcompat": "import exportcompat", "packaging": "import packaging.requirements", "nothing": "pass"}
    samples = in_turn({name: partial(_process_time, code) for name, code in codes.items()}, repeat)
    ours = samples.pop("exportcompat")
    empty = statistics.median(samples["nothing"])
    over_empty = [sample - empty for sample in ours]
    packaging = [sample - empty for sample in samples["packaging"]]
    return [
        Row("process that imports exportcompat", "ms", ours, samples),
        Row("import, over an empty process", "ms", over_empty, {"packaging.requirements": packaging}, target=50),
    ]


def entry_rows(repeat: int, models: int = 0) -> list[Row]:
    """Measure first and later entries into scopes; no rows where torch or transformers is not installed."""
    names = ("exportcompat", "transformers", "onnx-diagnostic")
    found = in_turn({name: partial(_entry, name, models) for name in names}, repeat)
    results = {name: samples for name, samples in found.items() if samples[0] is not None}
    if "exportcompat" not in results:
        return []

    def row(what: str, unit: str, read: Callable[[dict[str, Any]], float], target: float) -> Row:
        figures = {name: [read(sample) for sample in samples] for name, samples in results.items()}
        return Row(what, unit, figures.pop("exportcompat"), figures, target)

    imported = f"{models} models imported" if models else "model imported"
    return [
        row(f"first entry, {imported}", "ms", lambda sample: sample["first_ms"], 10),
        row(f"later entry, {imported}", "ms", lambda sample: statistics.median(sample["later_ms"]), 1),
        row("modules of others that the first entry imports", "modules", lambda sample: len(sample["modules"]), 0),
    ]


def plan_rows(repeat: int) -> list[Row]:
    """Measure plans for 200 pairs of versions, next to packaging's answer for the same ranges."""
    from packaging.specifiers import SpecifierSet

    from exportcompat import plan
    from exportcompat.patches import default_registry

    pairs = [{"torch": torch, "transformers": other} for torch in TORCH for other in TRANSFORMERS]
    found = [item for spec in default_registry() for item in spec.ranges if item.package in pairs[0]]
    ranges = [(item.package, SpecifierSet(item.specifiers)) for item in found]

    def plans() -> None:
        for versions in pairs:
            plan(versions)

    def specifiers() -> None:
        for versions in pairs:
            for package, specifier in ranges:
                specifier.contains(versions[package])

    samples = in_turn({"plan": lambda: _time(plans), "packaging alone": lambda: _time(specifiers)}, repeat)
    return [Row(f"plan() for {len(pairs)} pairs of versions", "ms", samples.pop("plan"), samples)]


def wheel_rows(wheel: Path | None) -> list[Row]:
    """Measure the wheel, built now unless it is given."""
    with tempfile.TemporaryDirectory() as folder:
        built = wheel or build_wheel(Path(folder))
        return [Row("wheel", "kB", [built.stat().st_size / 1e3], target=_max_wheel_bytes() / 1e3)]


def _max_wheel_bytes() -> int:
    from exportcompat._extras import parse_toml

    found: int = parse_toml((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["exportcompat"]["max-wheel-bytes"]
    return found


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the sources, so that no build folder is left in the tree.

    Raises:
        RuntimeError: nothing that builds wheels is installed, or the build fails.
    """
    source, out = folder / "source", folder / "out"
    out.mkdir()
    for path in (ROOT / name for name in SOURCES):
        if path.is_dir():
            shutil.copytree(path, source / path.name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif path.exists():
            shutil.copy(path, source / path.name)
    done = subprocess.run(_build_command(out), cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the wheel cannot be built; name one with --wheel\n{done.stderr}")
    (wheel,) = out.glob("*.whl")
    return wheel


def _build_command(out: Path) -> list[str]:
    if importlib.util.find_spec("setuptools"):
        return [sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"]
    if uv := shutil.which("uv"):
        return [uv, "build", "--wheel", "--out-dir", str(out)]
    return [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(out), "."]


def in_turn(measurements: dict[str, Callable[[], Any]], repeat: int) -> dict[str, list[Any]]:
    """Return `repeat` samples of each measurement, taken in turn after one round that only warms the caches."""
    rounds = [{name: measure() for name, measure in measurements.items()} for _ in range(repeat + 1)]
    return {name: [samples[name] for samples in rounds[1:]] for name in measurements}


def _process_time(code: str) -> float:
    command = [sys.executable, "-c", code]
    return _time(lambda: subprocess.run(command, check=True, cwd=HERE, env=_environment()))


def _entry(patcher: str, models: int) -> Any:
    command = [sys.executable, str(HERE / "entry.py"), patcher, "--models", str(models)]
    done = subprocess.run(command, check=True, cwd=HERE, env=_environment(), capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _environment() -> dict[str, str]:
    """Return the environment of measured processes: users have bytecode caches, whatever this shell has set."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _time(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 100 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    head = ["what", "unit", "exportcompat", "range", "target", "peers (as a multiple of ours)"]
    lines = [head, ["---"] * len(head), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def versions() -> dict[str, str | None]:
    """Return what was measured, and with what."""
    found: dict[str, str | None] = {"python": platform.python_version(), "machine": platform.machine()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return 1 where a target is missed."""
    measurements: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
        "import": lambda arguments: import_rows(arguments.repeat),
        "entry": lambda arguments: entry_rows(max(3, arguments.repeat // 4)),
        "entry-models": lambda arguments: entry_rows(max(3, arguments.repeat // 4), 47),
        "plan": lambda arguments: plan_rows(arguments.repeat),
        "wheel": lambda arguments: wheel_rows(arguments.wheel),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=measurements, default=list(measurements), help="default: all")
    parser.add_argument("--repeat", type=int, default=21, help="samples of each figure; a quarter of it for entries")
    parser.add_argument("--wheel", type=Path, help="wheel to weigh instead of a new one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample to FILE")
    arguments = parser.parse_args(argv)
    rows = [row for name in arguments.only for row in measurements[name](arguments)]
    sys.stdout.write(f"{table(rows)}\n\n{', '.join(f'{name} {text}' for name, text in versions().items())}\n")
    if arguments.json:
        data = {"versions": versions(), "rows": [row.to_dict() for row in rows]}
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
    return int(any(row.is_missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
