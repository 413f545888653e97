"""Who makes files: each is called as its documentation says, and judged by the calls that it promises."""

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from ._models import TASK

EVERYTHING: tuple[str, ...] = ()
"""The options of `exportcompat verify` for a file that promises every call."""

_FUSED = (("--no-padding", "--no-chunks"), ("--no-padding", "--batch", "1"))
_FUSED_WHY = (
    "Its attention is ONNX Runtime's GroupQueryAttention, which takes a length for each text and no mask, so that text "
    "padded on the left is out, and of several new tokens after a past says `batch_size must be 1 when sequence_length "
    "> 1 and past context is given`."
)


@dataclass(frozen=True, kw_only=True)
class Maker:
    """An exporter, called in one way.

    Attributes:
        name: its name in results and on the command line.
        title: what it is, for people.
        requires: the distributions that it is run with, with what versions it takes; torch and transformers too, where
            it needs some.
        command: the arguments of Python, with `{model}` for the folder of a model, and `{folder}` for that of the
            result, or `{file}` for the file in it.
        shown: the line that a user writes.
        file: the file in that folder.
        promises: the options of `exportcompat verify` for each set of calls that it is to be right for; all of them.
        why: where that promise is from.
        refusal: what its error has where it does not offer a model type at all; empty where nothing is known.
        admits: what a warning of its has where it says that the file is not right; empty where nothing is known.
        script: the file that the command runs, if it is one of ours.
    """

    name: str
    title: str
    requires: tuple[str, ...]
    command: tuple[str, ...]
    shown: str
    file: str = "model.onnx"
    promises: tuple[tuple[str, ...], ...] = (EVERYTHING,)
    why: str = "It says nothing of calls that it does not take."
    refusal: str = ""
    admits: str = ""
    script: str = ""

    def missing(self) -> list[str]:
        """Return what it needs and is not installed."""
        return [requirement for requirement in self.requires if not _is_there(Requirement(requirement))]

    def arguments(self, model: Path, folder: Path) -> list[str]:
        """Return the arguments of Python that make a file of a model."""
        return list(self._filled(model, folder))

    def _filled(self, model: Path, folder: Path) -> Iterator[str]:
        if self.script:
            yield str(Path(__file__).with_name(self.script))
        for part in self.command:
            yield part.format(model=model, folder=folder, file=folder / self.file)


def _is_there(wanted: Requirement) -> bool:
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return wanted.specifier.contains(found, prereleases=True)


_MOBIUS = ("-m", "mobius", "build", "--config", "{model}", "{folder}")

MAKERS: dict[str, Maker] = {
    maker.name: maker
    for maker in (
        Maker(
            name="exportcompat",
            title="`exportcompat export`, without its own comparison",
            requires=("torch", "transformers", "onnxscript"),
            command=("-m", "exportcompat", "export", "{model}", "{folder}", "--task", TASK, "--no-verify"),
            shown=f"exportcompat export MODEL_DIR OUT --task {TASK} --no-verify",
            why="It promises every call.",
        ),
        Maker(
            name="torch",
            title="`torch.onnx.export(dynamo=True)` alone",
            requires=("torch", "transformers>=4.56", "onnxscript"),
            command=("{model}", "{file}"),
            script="_by_torch.py",
            shown="python matrix/judge/_by_torch.py MODEL_DIR OUT/model.onnx",
            why="The script names the axes of batch, text and past as dynamic.",
        ),
        Maker(
            name="transformers",
            title="transformers' own `OnnxExporter`, with dynamic shapes and a decoder of several tokens",
            requires=("torch>=2.11", "transformers>=5.23", "onnxscript"),
            command=("{model}", "{file}"),
            script="_by_transformers.py",
            shown="python matrix/judge/_by_transformers.py MODEL_DIR OUT/model.onnx",
            why=(
                '`multi_token_decode` is documented as "a dynamic query axis (prefill on an empty cache, '
                'continuation-from-past otherwise)", and `dynamic=True` makes every axis dynamic.'
            ),
        ),
        Maker(
            name="mobius",
            title="mobius-onnx, its default: portable ONNX",
            requires=("mobius-onnx", "transformers>=5"),
            command=_MOBIUS,
            shown="mobius build --config MODEL_DIR OUT",
            admits="will diverge from HuggingFace",
        ),
        Maker(
            name="mobius-cpu",
            title="mobius-onnx for ONNX Runtime's CPU provider",
            requires=("mobius-onnx", "transformers>=5"),
            command=(*_MOBIUS, "--ep", "cpu"),
            shown="mobius build --config MODEL_DIR OUT --ep cpu",
            promises=_FUSED,
            why=_FUSED_WHY,
            admits="will diverge from HuggingFace",
        ),
        Maker(
            name="genai",
            title="onnxruntime-genai's model builder",
            requires=("onnxruntime-genai", "transformers"),
            command=(
                *("-m", "onnxruntime_genai.models.builder", "-i", "{model}", "-o", "{folder}"),
                *("-p", "fp32", "-e", "cpu"),
            ),
            shown="python -m onnxruntime_genai.models.builder -i MODEL_DIR -o OUT -p fp32 -e cpu",
            promises=_FUSED,
            why=_FUSED_WHY,
            refusal="model is not currently supported",
        ),
        Maker(
            name="optimum-onnx",
            title="optimum-onnx, `optimum-cli export onnx`",
            requires=("optimum-onnx", "transformers>=4.36,<4.58"),
            command=(
                *("-m", "optimum.commands.optimum_cli", "export", "onnx", "--model", "{model}"),
                *("--task", TASK, "{folder}"),
            ),
            shown=f"optimum-cli export onnx --model MODEL_DIR --task {TASK} OUT",
            refusal="custom or unsupported architecture",
        ),
    )
}
