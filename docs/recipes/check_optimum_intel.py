"""Export decoders by the installed optimum-intel, and compare what OpenVINO makes of them with eager.

It prints a line for each case, and ends with status 1 where one is not right. `nox -s downstream` runs it with the
released package as it is, and with the recipe.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import openvino
import torch
from optimum.exporters.openvino import main_export

from exportcompat.matrix.cases import find_case

CASES = ("llama", "llama_dynamic")
"""Cases that are checked; others can be named on the command line."""


def main() -> int:
    """Check each case; return the number of those that are not right, at most 1."""
    outcomes = [check(name) for name in (sys.argv[1:] or CASES)]
    return int(not all(outcomes))


def check(name: str) -> bool:
    """Export a case as `optimum-cli export openvino` does, its cache as inputs and outputs, and compare it."""
    case = find_case(name)
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "model"), Path(folder, "openvino")
        case.decoder().model.save_pretrained(source)
        try:
            main_export(str(source), made, task="text-generation-with-past", stateful=False)
        except Exception as error:
            # Any class: these are the tools of others.
            print(f"{name}: fails: {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            return False
        rows = [row for row in case.compare(Program(made / "openvino_model.xml"), case.decoder) if is_read(row)]
    wrong = [row for row in rows if not row.success]
    worst = max(row.absolute for row in rows)
    print(f"{name}: {'wrong' if wrong else 'right'}: off by {worst:.2g} in {len(rows)} calls", flush=True)
    return not wrong


def is_read(row: Any) -> bool:
    """Say whether every result of a call is read by somebody: those of padding, in a first call, are by nobody.

    Its masks have the least number of float16 where a token is not to be seen, so that padding sees all tokens, as it
    does not in eager.
    """
    return bool(row.past or "padding 0" in row.group)


class Program:
    """A saved model, called by names as a file of ONNX is; OpenVINO computes in float32 on one thread.

    Args:
        path: the model.
    """

    metadata: ClassVar[dict[str, str]] = {}

    def __init__(self, path: Path) -> None:
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        self.path, self._model = path, openvino.Core().compile_model(path, "CPU", settings)
        self._request = self._model.create_infer_request()
        self.inputs = {item.get_any_name(): _shape(item) for item in self._model.inputs}
        self.outputs = [item.get_any_name() for item in self._model.outputs]

    def dtype(self, name: str) -> Any:
        """Return the torch dtype of an input."""
        return torch.from_numpy(openvino.Tensor(self._model.input(name).element_type, [0]).data).dtype

    def run(self, feeds: Any) -> dict[str, Any]:
        """Return the outputs by name, given tensors by name."""
        arrays = {name: tensor.contiguous().numpy() for name, tensor in feeds.items() if name in self.inputs}
        found = self._request.infer(arrays, share_outputs=False)
        # What a request returns is overwritten by the next one.
        return {name: torch.from_numpy(found[index].copy()) for index, name in enumerate(self.outputs)}


def _shape(item: Any) -> list[int | str]:
    """Return the shape of an input; a dynamic axis has a name, and the first one is the batch."""
    sizes = enumerate(item.get_partial_shape())
    return [
        ("batch" if axis == 0 else f"axis_{axis}") if size.is_dynamic else size.get_length() for axis, size in sizes
    ]


if __name__ == "__main__":
    raise SystemExit(main())
