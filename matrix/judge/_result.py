"""The result of a maker and a model: what it made, what it said, and what the file is right for."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from exportcompat.matrix._fork_server import NoResultError, run_forked
from exportcompat.matrix.store import own_digest
from exportcompat.patches import default_registry
from exportcompat.registry import installed_version

from ._makers import Maker
from ._models import JudgedModel
from ._verdicts import verdict, verdicts

MADE, FAILS, NOT_OFFERED = "made", "fails", "not-offered"
"""What came of the making: a file, none, or the maker says that it does not have the type of model."""

_BASE = ("torch", "transformers", "onnxruntime", "onnx", "onnxscript", "onnx-ir")
_OURS = "exportcompat"
_JUDGED = (
    *(f"{item.__module__}:{item.__qualname__}" for item in (JudgedModel, verdicts, verdict)),
    "exportcompat._cli._verify:run_verify",
)
_EXPORT = ("exportcompat._exporter:export", *(spec.replacement for spec in default_registry()))
"""Where the code begins that results depend on, those of all and those of ours, as `module:function`."""

_WARNING = re.compile(r"warn|experimental|diverge|unsupported|not supported|may differ", re.IGNORECASE)
_NOISE = re.compile(
    r'FutureWarning|DeprecationWarning|torchvision|onnxruntime cpuid_info|^File "|Unable to find user code'
)
"""What libraries below say to those who wrote the exporter, and the lines of a traceback: nothing of the file."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN, _LONG = 6, 500


def check(maker: Maker, model: JudgedModel, source: Path, timeout: float) -> dict[str, Any]:
    """Make a file of a model, judge it, and return the result.

    Args:
        maker: who makes it.
        model: the model.
        source: the folder that it is saved in.
        timeout: seconds for the making, and for all comparisons.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "made")
        out.mkdir()
        made = make(maker, source, out, timeout)
        found = _judge(maker, out, source, timeout) if made["outcome"] == MADE else []
    return {
        "model": model.name,
        "maker": maker.name,
        **made,
        "verdicts": found,
        "versions": versions_of(maker),
        "date": time.strftime("%Y-%m-%d"),
        "key": key_of(maker, model),
    }


def _judge(maker: Maker, out: Path, source: Path, timeout: float) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = run_forked(verdicts, (out / maker.file, source), timeout)
    except NoResultError as error:
        found = [{"options": [], "verdict": "unreadable", "error": str(error)}]
    return found


def make(maker: Maker, source: Path, out: Path, timeout: float) -> dict[str, Any]:
    """Run a maker in a process of its own; return the outcome, the error, its warnings, and how long it took."""
    begin = time.perf_counter()
    command = [sys.executable, *maker.arguments(source, out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=_environment(), check=False)
        status, said = done.returncode, f"{done.stdout}\n{done.stderr}"
    except subprocess.TimeoutExpired:
        status, said = 1, f"no result after {timeout:g} s"
    said = _plain(said, source, out)
    is_made = status == 0 and (out / maker.file).is_file()
    offered = not (maker.refusal and maker.refusal in said)
    return {
        "outcome": MADE if is_made else FAILS if offered else NOT_OFFERED,
        "error": "" if is_made else last_words(said),
        "warnings": warnings_in(said),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def _environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "PYTHONSAFEPATH": "1"}


def _plain(text: str, *folders: Path) -> str:
    """Return what was printed without colours, and without the places of this machine."""
    text = _COLOUR.sub("", text)
    for folder, word in zip(folders, ("MODEL_DIR", "OUT"), strict=True):
        text = text.replace(str(folder), word)
    for place in sorted(filter(None, sys.path), key=len, reverse=True):
        text = text.replace(f"{place}/", "")
    return text


def warnings_in(said: str) -> list[str]:
    """Return the lines that warn of the file, each once."""
    lines = [line.strip() for line in said.splitlines() if _WARNING.search(line) and not _NOISE.search(line.strip())]
    # What `warnings` prints has the statement in the line below.
    found = [line for line in lines if not line.startswith(("warnings.warn", "warn(", "logger.warning"))]
    return [_cut(line) for line in list(dict.fromkeys(found))[:_SHOWN]]


def last_words(said: str) -> str:
    """Return the line of an error: that of torch's summary where there is one, else the last."""
    _, found, rest = said.partition("## Exception summary")
    lines = [line.strip() for line in (rest if found else said).splitlines() if line.strip()]
    return _cut(lines[0] if found and lines else lines[-1] if lines else "the process said nothing")


def _cut(line: str) -> str:
    return line if len(line) <= _LONG else f"{line[:_LONG]} ..."


def versions_of(maker: Maker) -> dict[str, str]:
    """Return the versions of what a result was found with."""
    names = dict.fromkeys([*_BASE, *(Requirement(item).name for item in maker.requires)])
    # A build of torch for another device is the same release.
    return {name: version.public for name in names if (version := installed_version(name))}


def key_of(maker: Maker, model: JudgedModel) -> str:
    """Return a digest of what a result depends on beside its versions: what is run, and our code below it.

    A file of ours depends on every patch; it is not asked which of them an export could come to.
    """
    functions = [*_JUDGED, *(_EXPORT if maker.name == _OURS else ())]
    script = Path(__file__).with_name(maker.script).read_text("utf-8") if maker.script else ""
    called = (maker.command, maker.file, model.name, model.model_type, model.fields, script)
    parts = [*map(str, called), own_digest(functions)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
