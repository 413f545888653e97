"""`Case`: one reference model, with what is special about its export. A record: it imports nothing that it names."""

import importlib
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._decoder import SEED

if TYPE_CHECKING:
    from exportcompat import Discrepancy
    from exportcompat._verification import Program


@dataclass(frozen=True)
class Call:
    """A function by its name, with arguments; it is imported when it is called.

    Attributes:
        function: `"package.module:function"`.
        arguments: what comes before the arguments of the call.
        keywords: names and values of arguments.
    """

    function: str
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()

    def __call__(self, *more: Any) -> Any:
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(module), name)(*self.arguments, *more, **dict(self.keywords))


def call(function: str, *arguments: Any, **keywords: Any) -> Call:
    """Return a function of `exportcompat.matrix.cases` with arguments, given as `"module:function"`."""
    return Call(f"{__package__}.{function}", arguments, tuple(keywords.items()))


def has_model(name: str) -> Call:
    """Return the question whether the installed transformers has a folder of this model."""
    return call("_presence:has_model", name)


def always() -> bool:
    """Say that a model is in every release; a case is sent to other processes, so this has a name."""
    return True


COMPARE_DECODER = call("_comparisons:compare_decoder")
COMPARE_UNPADDED = call("_comparisons:compare_unpadded")
COMPARE_END_TO_END = call("_by_export:compare_end_to_end")
EXPORT_END_TO_END = call("_by_export:export_end_to_end")


@dataclass(frozen=True)
class Case:
    """One reference model.

    Attributes:
        name: its name in results.
        title: what it is, for people.
        make: builds the decoder, or a `Forward` for a model without a cache.
        exists: says whether the installed transformers has the model.
        shown: part of the quickstart.
        everywhere: run in every cell of the grid, and not only in those that run all cases.
        telling: run where nothing else is asked for: a case for each class of defects.
        exclude: ids of specs that are left out, for a user who does without them.
        slow_without: ids of specs without which torch takes minutes to unroll a loop, or to refuse it, and of specs
            whose graph here is large while others of their kind are proved: their proofs are left out of the tests.
        around: makes a context in which the case is exported.
        compare: compares a file, or another exporter's program, with eager, given what makes the model anew.
        write: writes the file, given the decoder, the path and the ids of the specs that are applied; None for plain
            `torch.onnx.export` with the decoder's own axes and names.
        is_captured: it goes by `torch.export`, so that a second export can be compared with the first.
    """

    name: str
    title: str
    make: Call
    exists: Callable[[], bool] = always
    shown: bool = False
    everywhere: bool = False
    telling: bool = False
    exclude: tuple[str, ...] = ()
    slow_without: tuple[str, ...] = ()
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    compare: "Callable[[Path | Program, Callable[[], Any]], list[Discrepancy]]" = COMPARE_DECODER
    write: Callable[[Any, Path, Collection[str]], None] | None = None
    is_captured: bool = True

    def decoder(self) -> Any:
        """Build the model, the same one each time, in evaluation mode."""
        import torch

        torch.manual_seed(SEED)
        decoder = self.make()
        decoder.model.eval()
        return decoder
