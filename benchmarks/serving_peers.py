"""The files that `serving.py` times: ours, and those that others make of the same model."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from serving_models import FRAMES, Call, Workload, inputs_of, tokens

Files = Mapping[str, Path]
"""By the part that each holds."""

_LATER = "later"
"""The part of a decoder that is for later calls alone, where it is in two files."""

SIZES = {1: 2, 3: 32}
"""Heads and channels of the last model that was built, for files that do not say them."""

_CHANNELS = 80


def onnx(files: Files) -> Callable[[Workload], Call]:
    """Call files with ONNX Runtime; their inputs are told by their names and types."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    sessions = {
        part: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for part, path in files.items()
    }

    def prepare(load: Workload) -> Call:
        session = sessions[_LATER if load.past and _LATER in sessions else load.part]
        feeds = {item.name: _feed(item, load, session) for item in session.get_inputs()}
        return lambda: session.run(None, feeds)

    return prepare


def _feed(item: Any, load: Workload, session: Any) -> Any:
    import numpy as np

    kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_}.get(item.type, np.float32)
    random = np.random.default_rng(0)
    if len(item.shape) == 4:
        # The keys of what an encoder saw are there after the first call.
        is_first = load.past == 0
        length = FRAMES // 2 * (not is_first) if "encoder" in item.name else load.past
        # Where the encoder computes them, they are always there.
        length = FRAMES // 2 if "cross" in item.name else length
        # Some files write sizes as words, or have names for them.
        heads, channels = (_size(item.shape[axis], session, axis) for axis in (1, 3))
        return random.standard_normal((1, heads, length, channels)).astype(kind)
    if item.name in {"encoder_hidden_states", "input_features", "audio_features"}:
        return random.standard_normal(_sounds(item, load)).astype(kind)
    if "branch" in item.name:
        return np.array([load.past > 0])
    if "mask" in item.name:
        return np.ones((1, load.past + load.new), kind)
    if "position" in item.name:
        places: Any = np.arange(load.past, load.past + load.new, dtype=kind)
        return places if len(item.shape) == 1 else places[None]
    return np.zeros((1, load.new), kind) if "type" in item.name else tokens(load.new).numpy().astype(kind)


def _size(size: Any, session: Any, axis: int) -> int:
    """Return a size of keys and values; a name stands for what another one of them has as a number."""
    if str(size).isdigit():
        return int(size)
    caches = [item.shape[axis] for item in (*session.get_inputs(), *session.get_outputs()) if len(item.shape) == 4]
    return next((int(found) for found in caches if str(found).isdigit()), SIZES[axis])


def _sounds(item: Any, load: Workload) -> tuple[int, ...]:
    return (1, FRAMES // 2, item.shape[2]) if "states" in item.name else (1, _CHANNELS, FRAMES)


def _our_name(name: str) -> str:
    """Return what the others call keys and values, for a file that names them by the classes of its cache."""
    found = re.fullmatch(r"(past_key_values|cache)\.layers\.(\d+)\.(key|value)s", name)
    which = {"past_key_values": "past_key_values", "cache": "present"}
    return name if found is None else f"{which[found[1]]}.{found[2]}.{found[3]}"


class Peers:
    """Makes the files of one model in a folder; those that are there are taken as they are.

    Args:
        name: of the model.
        model: itself.
        folder: where all files are.
        optimum: the Python that has optimum-onnx, which needs an older transformers.
    """

    def __init__(self, name: str, model: Any, folder: Path, optimum: Path | None) -> None:
        self._name, self._model, self._folder = name, model, folder
        self._optimum = optimum or Path(sys.executable)
        self._source = folder / "source"
        config = model.config
        SIZES[1] = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        SIZES[3] = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def makers(self) -> dict[str, Callable[[], Files]]:
        """Return what makes the files of each; it may fail."""
        mobius = ("mobius", "build", "--model", str(self._source))
        genai = ("onnxruntime_genai.models.builder", "-i", str(self._source), "-p", "fp32", "-e", "cpu", "-c", "cache")
        optimum = ("optimum.exporters.onnx", "--model", str(self._source), "--task", self._task())
        return {
            "exportcompat": lambda: self._ours("plain"),
            "derived for cpu": self._derived,
            "exportcompat, opset 20": lambda: self._ours("opset_20", opset=20),
            "torch.onnx.export": self._torch,
            "transformers' exporter, fused": self._transformers,
            "optimum-onnx": lambda: self._built("optimum", *optimum, python=self._optimum),
            **({"optimum-onnx, two files": self._optimum_parts} if self._name == "whisper" else {}),
            "genai's builder": lambda: self._built("genai", *genai, option="-o"),
            "mobius-onnx": lambda: self._built("mobius", *mobius),
            "mobius-onnx, cpu": lambda: self._built("mobius_cpu", *mobius, "--ep", "cpu"),
        }

    def _task(self) -> str:
        tasks = {"bert": "feature-extraction", "whisper": "automatic-speech-recognition-with-past"}
        return tasks.get(self._name, "text-generation-with-past")

    def _parts(self, folder: Path) -> dict[str, Path]:
        """Return the files of a folder by what they hold."""
        paths = [path for path in sorted(folder.rglob("*.onnx")) if not path.parent.name.startswith(".")]
        found = {path.parent.name + "/" + path.name: path for path in paths}
        if self._name != "whisper":
            # A file that was derived from ours lies beside it.
            plain = [path for name, path in found.items() if not name.endswith("_cpu.onnx")]
            return {"encoder" if self._name == "bert" else "decoder": plain[0]} if plain else {}
        encoders = [path for name, path in found.items() if "encoder" in name]
        decoders = [path for name, path in found.items() if "decoder" in name]
        decoders.sort(key=lambda path: "merged" not in path.name)
        encoders = [path for path in encoders if path not in decoders]
        return {"encoder": encoders[0], "decoder": decoders[0]} if encoders and decoders else {}

    def _ours(self, folder: str, **options: Any) -> Files:
        from exportcompat import export

        path = self._folder / folder
        if not self._parts(path):
            export(self._model, inputs_of(self._name), path, verify=False, **options)
        return self._parts(path)

    def _derived(self) -> Files:
        from exportcompat import apply_patches
        from exportcompat._observer import observe, observe_encoder_decoder
        from exportcompat._serving import serve
        from exportcompat._verification import LATER

        plain, is_part = self._ours("plain"), self._name == "whisper"
        if "decoder" not in plain:
            raise RuntimeError("files are derived of decoders")
        path = plain["decoder"].with_name(LATER if is_part else "model_cpu.onnx")
        if not path.exists():
            with apply_patches():
                inputs = inputs_of(self._name)
                seen = (
                    observe_encoder_decoder(self._model, inputs)["decoder"][1]
                    if is_part
                    else observe(self._model, inputs)
                )
            made = serve(plain["decoder"], seen, "cpu", output=None if is_part else path)
            print(made, file=sys.stderr)
            if made.path is None:
                raise RuntimeError("nothing was faster")
        return {**plain, **self._two_files(path.parent)} if is_part else {"decoder": path}

    def _optimum_parts(self) -> Files:
        """Return those of optimum that are not merged; it writes them too."""
        made = self._parts(self._folder / "optimum")
        return {**made, **self._two_files(made["decoder"].parent)}

    def _two_files(self, folder: Path) -> Files:
        """Return the files of a decoder that is in two, by the names that optimum has for them."""
        from exportcompat._verification import FIRST, LATER

        return {"decoder": folder / FIRST, _LATER: folder / LATER}

    def _torch(self) -> Files:
        """Export without our patches, with the arguments and shapes that our observer infers."""
        import torch

        from exportcompat import apply_patches
        from exportcompat._observer import observe

        if self._name == "whisper":
            raise RuntimeError("two models of torch are written by hand for it")
        path = self._folder / "torch" / "model.onnx"
        if not path.exists():
            with apply_patches():
                observer = observe(self._model, inputs_of(self._name))
            args, kwargs = observer.infer_arguments(as_args_kwargs=True)
            names, shapes = observer.interface(), observer.infer_dynamic_shapes(set_batch_dimension_for=True)
            made: Any = torch.onnx.export(
                self._model, args, kwargs=kwargs, dynamic_shapes=shapes, input_names=names[0], output_names=names[1],
                dynamo=True, verbose=False,
            )  # fmt: skip
            path.parent.mkdir(exist_ok=True)
            made.save(path)
        return self._parts(path.parent)

    def _transformers(self) -> Files:
        """Write the file of transformers' exporter, with its fusions for the CPU."""
        import onnx_ir as ir
        from transformers.exporters.configs import OnnxConfig
        from transformers.exporters.exporter_onnx import OnnxExporter

        if self._name == "whisper":
            raise RuntimeError("its exporter takes one model, and not the parts of an encoder-decoder")
        path = self._folder / "transformers" / "model.onnx"
        if not path.exists():
            config = OnnxConfig(dynamic=True, ort_fusions="cpu")
            found: Any = OnnxExporter().export_program(self._model, self._with_cache(), config)
            made = found[0] if isinstance(found, tuple) else found
            program: Any = getattr(made, "model", made)
            for value in (*program.graph.inputs, *program.graph.outputs):
                value.name = _our_name(value.name)
            path.parent.mkdir(exist_ok=True)
            ir.save(program, path)
        return self._parts(path.parent)

    def _with_cache(self) -> dict[str, Any]:
        """Return the arguments of a call after a past of four tokens, which is what its exporter traces."""
        import torch
        from transformers import DynamicCache

        if self._name == "bert":
            call: dict[str, Any] = inputs_of(self._name)[0]
            return call
        with torch.no_grad():
            cache = self._model(torch.full((2, 4), 7), past_key_values=DynamicCache(), use_cache=True).past_key_values
        return {
            "input_ids": torch.full((2, 3), 7), "attention_mask": torch.ones(2, 7, dtype=torch.int64),
            "position_ids": torch.arange(4, 7)[None].expand(2, 3), "past_key_values": cache,
        }  # fmt: skip

    def _built(self, folder: str, *command: str, python: Path | None = None, option: str = "") -> Files:
        """Run a peer that has a command line.

        Raises:
            RuntimeError: it fails.
        """
        path = self._folder / folder
        if not self._parts(path):
            self._save()
            output = [option, str(path)] if option else [str(path)]
            # Their Python finds its own packages, and not those that this one was told of.
            around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            line = [str(python or sys.executable), "-m", *command, *output]
            done = subprocess.run(line, capture_output=True, text=True, check=False, env=around, cwd=self._folder)
            if done.returncode or not self._parts(path):
                lines = [text for text in done.stderr.splitlines() if text.strip()]
                raise RuntimeError(lines[-1] if lines else f"no file of {folder}")
        return self._parts(path)

    def _save(self) -> None:
        """Save the model as a checkpoint, with a tokenizer that some of them want to copy."""
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        if self._source.exists():
            return
        self._model.save_pretrained(self._source)
        marks = {f"{what}_token": f"<{what}>" for what in ("pad", "bos", "eos", "unk")}
        words = {
            word: index for index, word in enumerate([*marks.values(), *(f"w{index}" for index in range(4, 4000))])
        }
        model = Tokenizer(models.WordLevel(words, unk_token=marks["unk_token"]))
        tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=model, **marks)
        tokenizer.save_pretrained(self._source)
