"""Models whose calls stand alone: an image, a text or a sound goes in, and no cache comes back."""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exportcompat._verification import Discrepancy, Program, measure, opened

from ._decoder import Sample


class Forward:
    """A model without a cache, with the calls that export and comparison need.

    Args:
        model: the module; its `forward` takes keyword arguments.

    Attributes:
        traced: the shape of the call that is exported.
        shapes: the shapes that are compared; none of them is `traced`.
        axes: the dynamic axes of each argument, by name.
        outputs: names of the outputs.
    """

    traced: Any = None
    shapes: Sequence[Any] = ()
    axes: Mapping[str, Any] = {}
    outputs: Sequence[str] = ("last_hidden_state",)

    def __init__(self, model: Any) -> None:
        self.model = model

    def inputs(self, shape: Any) -> dict[str, Any]:
        """Return the keyword arguments of a call; the same ones each time."""
        raise NotImplementedError

    def results(self, output: Any) -> Sequence[Any]:
        """Return the tensors of what `forward` returns, in the order of `outputs`."""
        return [output[name] for name in self.outputs]

    def shape_of(self, sample: Sample) -> Any:
        """Return the shape that a sample stands for; the usual sample and those of `State` are `traced`."""
        return self.traced

    def sample(self, sample: Sample) -> dict[str, Any]:
        """Return the keyword arguments of the call that is exported."""
        return self.inputs(self.shape_of(sample))

    def dynamic_shapes(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the dynamic axes of a sample."""
        return {name: self.axes.get(name) for name in inputs}

    def names(self, inputs: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the names of the inputs and of the outputs of a file."""
        return list(inputs), list(self.outputs)

    def cache(self, batch: int, past: int) -> tuple[()]:
        """Return nothing: there is no cache."""
        return ()

    def reference(self) -> "Forward":
        """Return a copy whose state no call of this one changes."""
        return type(self)(copy.deepcopy(self.model))

    def __call__(self, inputs: Mapping[str, Any], cache: None = None) -> tuple[Any, None]:
        """Return the first output of an eager call, and no cache."""
        return self.run(inputs)[0], None

    def run(self, inputs: Mapping[str, Any]) -> Sequence[Any]:
        """Return the outputs of an eager call."""
        import torch

        with torch.no_grad():
            return self.results(self.model(**inputs))


def compare_calls(path: Path | Program, make: Callable[[], Forward]) -> list[Discrepancy]:
    """Run each call through the file and through a fresh model.

    Args:
        path: an ONNX file, or another program.
        make: makes the model.

    Raises:
        ExportCompatError: the file cannot be loaded.
        Exception: what ONNX Runtime raises for a shape that the graph does not take.
    """
    file, subject = opened(path), make()
    return [_row(file, subject.reference(), shape) for shape in subject.shapes]


def _row(file: Program, subject: Forward, shape: Any) -> Discrepancy:
    inputs = subject.inputs(shape)
    # torch leaves out of a graph what its result does not depend on.
    feeds = {name: value for name, value in inputs.items() if name in file.inputs}
    begin = time.perf_counter()
    found = file.run(feeds)
    middle = time.perf_counter()
    wanted = dict(zip(subject.outputs, subject.run(inputs), strict=True))
    times: dict[str, Any] = {"onnx_ms": 1000 * (middle - begin), "torch_ms": 1000 * (time.perf_counter() - middle)}
    tensors = {name: tuple(value.shape) for name, value in feeds.items()}
    return Discrepancy(call=f"shape {shape}", inputs=tensors, **times, **measure(found, wanted))
