"""Watch what a pipeline or `generate` hands to `forward`, and tell from it what to export."""

import copy
import functools
import inspect
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from exportcompat._extras import require
from exportcompat._verification import CPU, Contract, Discrepancies, HalfPrecisionFile, open_file, windows_of
from exportcompat.patches.toolkit.cache_names import cache_name
from exportcompat.registry import ExportCompatError, NoCacheError, html_table, text_table

from . import _export_sample
from ._alignment import Aligned, align
from ._compared_call import Observed, first_line, tensor_outputs
from ._dynamic_axes import Axes, name_axes
from ._eager_refusal import eager_refusal
from ._embedded_tokens import embedded
from ._generators import random_states
from ._growing_cache import dynamic_cache
from ._in_float32 import in_float32
from ._inner_model import as_written, inner_model
from ._named_cache import named_cache
from ._output_types import compare_types
from ._own_positions import has_own_positions
from ._passed_on import without_passed_on
from ._progress import Tell, telling
from ._record import (
    DERIVED,
    TRIMMING,
    Record,
    bound,
    is_default,
    kept_tokens,
    names_of,
    take,
    take_result,
)
from ._refused_parts import check_call, check_part
from ._replay import replay
from ._rope_index import POSITION_IDS, with_positions
from ._windows import results_within, sliding_windows, within_windows
from ._without_cache import BY_FORWARD, NO_CACHE, OBSERVED, refused, without_cache

if TYPE_CHECKING:
    from exportcompat._encoder_decoder import TextDecoder


_SHOWN = 4
"""Calls whose shapes are printed."""


class InputObserver:
    """Record calls of a model's method, and infer arguments and dynamic shapes for an export from them.

    >>> observer = InputObserver()
    >>> with apply_patches(), observer(model):
    ...     model.generate(**inputs, max_new_tokens=8)
    >>> with apply_patches():
    ...     torch.onnx.export(model, (), "model.onnx", kwargs=observer.infer_arguments(),
    ...                       dynamic_shapes=observer.infer_dynamic_shapes(set_batch_dimension_for=True), dynamo=True)
    >>> print(observer.check_discrepancies("model.onnx"))

    Caches are taken apart by the pytree specs, so observe inside `apply_patches()`; everything else works outside.
    The design follows `torch.onnx.InputObserver` (torch 2.11 and later).

    Args:
        missing: values for arguments that some calls do not have, such as
            `{"pixel_values": torch.empty((0, 3, 896, 896))}`. Needed only where no call shows the shape: a tensor
            that was seen in another call is taken to have length 0 along its first axis.
    """

    def __init__(self, missing: Mapping[str, Any] | None = None) -> None:
        self._missing = dict(missing or {})
        self._records: list[Record] = []
        self._model: Any = None
        self._method = "forward"
        self._signature = inspect.Signature()
        # Until it is said which arguments have one, a sample must do for a batch in any of them.
        self._batch: Collection[str] | bool | None = True
        self._sampled: dict[str, Any] = {}
        self._own_positions: bool | None = None
        self._is_asking = False
        self._windows: Mapping[str, int] = {}
        self._no_cache = ""

    def __len__(self) -> int:
        """Return the number of stored calls."""
        return len(self._records)

    def __enter__(self) -> NoReturn:
        raise ExportCompatError(
            "an observer watches one model: name it, as in `with observer(model):`, and run the model inside"
        )

    def __exit__(self, *exception: object) -> None:
        """Do nothing: nothing was begun."""

    def __str__(self) -> str:
        return "\n".join([*(text_table(self._rows()) if self._records else ()), self._summary()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self._rows(), title=self._summary())

    def _summary(self) -> str:
        if not self._records:
            return "InputObserver without calls: run the model inside `with observer(model):`"
        calls = f"{len(self)} {'call' if len(self) == 1 else 'calls'}"
        return f"InputObserver of {calls} of {type(_whole(self._model)).__name__}.{self._method}"

    @contextmanager
    def __call__(self, model: Any, store_n_calls: int = 3, method_name: str = "forward") -> "Iterator[InputObserver]":
        """Store the first calls of a method that return; a call that raises is not stored, and raises as before.

        The model is afterwards exactly as it was. Meanwhile its `generate` has a cache that grows where the model's
        configuration wants one of fixed size for sliding layers (Gemma2 and others to transformers 4.52), and hands it
        over by the name that code of a checkpoint has for it. Observers of other models, or of parts of this one, may
        be active at the same time. Further uses add to the stored calls.

        Args:
            model: an `nn.Module`; the same one in every use. A `TextDecoder` stands for its part of a whole model. What
                PEFT or `torch.compile` has put around a model is left out: the calls are those of the model inside.
            store_n_calls: how many calls to store in this use.
            method_name: the method to watch.

        Raises:
            ExportCompatError: the model has no such method, another model was observed before, or (in a call) an
                argument is of a class that is no pytree node; the model is the decoder of an encoder-decoder and
                cannot generate by itself, or is called with states of an encoder (the message has the line to write
                instead).
        """
        model = inner_model(model)
        self._begin(model, method_name, store_n_calls)
        limit, watched = len(self._records) + store_n_calls, _whole(model)
        with as_written(watched), self._in_place(watched, limit), dynamic_cache(watched), named_cache(watched):
            yield self

    @contextmanager
    def _in_place(self, watched: Any, limit: int) -> Iterator[None]:
        before = vars(watched).get(self._method, Parameter.empty)
        vars(watched)[self._method] = self._watching(watched, before, limit)
        try:
            yield
        finally:
            if before is Parameter.empty:
                vars(watched).pop(self._method, None)
            else:
                vars(watched)[self._method] = before

    def _begin(self, model: Any, method_name: str, calls: int) -> None:
        if not callable(getattr(model, method_name, None)):
            raise ExportCompatError(f"{type(model).__name__} has no method {method_name!r} to observe")
        if self._records and (model is not self._model or method_name != self._method):
            raise ExportCompatError(
                f"this observer holds calls of {type(self._model).__name__}.{self._method}; use another InputObserver "
                f"for {type(model).__name__}.{method_name}"
            )
        signature = inspect.signature(getattr(model, method_name))
        if _part(model) is None:
            check_part(model, signature.parameters, calls)
        self._model, self._method, self._signature = model, method_name, signature

    def _watching(self, model: Any, before: Any, limit: int) -> Callable[..., Any]:
        name = self._method
        original = getattr(model, name)

        # `generate` looks at the signature of forward, which `wraps` keeps.
        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            # A patch of the class that begins after the observation is called too.
            method = getattr(type(model), name).__get__(model) if before is Parameter.empty else before
            if len(self._records) >= limit or self._is_asking:
                return method(*args, **kwargs)
            return self._observe(method, signature, args, kwargs)

        signature = inspect.signature(original)
        watched.__signature__ = _without_features(signature)  # type: ignore[attr-defined]
        return watched

    def _observe(
        self,
        method: Callable[..., Any],
        signature: inspect.Signature,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        try:
            arguments = bound(signature, args, kwargs)
        except TypeError:
            # The method itself says best what is wrong.
            return method(*args, **kwargs)
        part = _part(self._model)
        if part is None:
            check_call(self._model, signature.parameters, arguments)
        known = without_passed_on(arguments, self._records)
        stored = part.arguments(arguments) if part else with_positions(self._model, known)
        inputs = take(stored, self._is_dropped)
        states, begin = random_states(), time.perf_counter()
        result = method(*args, **kwargs)
        seconds = time.perf_counter() - begin
        made = take_result(part.results(result) if part else result)
        self._records.append(Record(inputs, made, kept_tokens(arguments), seconds, random_states() != states))
        return result

    def _is_dropped(self, name: str, value: Any) -> bool:
        config = getattr(self._model, "config", None)
        return name in (*DERIVED, *TRIMMING) or is_default(name, value, self._signature, config)

    @overload
    def infer_arguments(
        self, index: int | None = None, *, as_args_kwargs: Literal[False] = False
    ) -> dict[str, Any]: ...
    @overload
    def infer_arguments(
        self, index: int | None = None, *, as_args_kwargs: Literal[True]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]: ...
    def infer_arguments(
        self, index: int | None = None, *, as_args_kwargs: bool = False
    ) -> dict[str, Any] | tuple[tuple[Any, ...], dict[str, Any]]:
        """Return keyword arguments to export with; no dynamic axis has size 0 or 1.

        A decoder also gets `attention_mask`, `(batch, past + sequence)`, and `position_ids`, `(batch, sequence)`, both
        int64, where its method takes them and `generate` left them out. `cache_position` and `logits_to_keep` are left
        out: the first follows from the cache, and a graph gives the logits of every token.

        Before `infer_dynamic_shapes` has been asked, every first axis counts as a batch that is dynamic.

        Args:
            index: return the arguments of a stored call instead, with empty tensors for what it did not have.
            as_args_kwargs: return `(args, kwargs)`; needed for a method with `*args` or positional-only parameters.

        Raises:
            ExportCompatError: nothing was observed, the calls do not agree (the message names the argument), there is
                no call `index`, or the arguments cannot be given by name.
        """
        aligned, axes = self._aligned()
        if index is not None and not -len(self) <= index < len(self):
            raise ExportCompatError(f"there is no stored call {index}; there are {len(self)}")
        tensors = (
            _export_sample.call(aligned, axes, index) if index is not None else _export_sample.sample(aligned, axes)
        )
        self._sampled = tensors if index is None else self._sampled
        arguments = _export_sample.build(aligned, tensors)
        args, kwargs = self._split(arguments)
        if as_args_kwargs:
            return args, kwargs
        if args:
            raise ExportCompatError(
                f"{self._method} takes arguments by position only; use infer_arguments(as_args_kwargs=True)"
            )
        return kwargs

    def infer_dynamic_shapes(
        self, set_batch_dimension_for: Collection[str] | bool | None = None, *, names: bool = True
    ) -> dict[str, Any]:
        """Return the dynamic axes, in the structure that `torch.onnx.export(dynamic_shapes=...)` takes.

        An axis is dynamic if it varied, if it is the batch, or if it is one of a decoder's interface. Axes of the same
        name had the same size in every call: `batch`, `sequence`, `past_sequence`, `total_sequence` (past +
        sequence), and names made of an argument and the number of an axis.

        Args:
            set_batch_dimension_for: arguments whose batch axis is dynamic although it did not vary; True for all.
            names: give the axes names, which `torch.onnx.export` takes; else `torch.export.Dim.DYNAMIC`, which
                `torch.export.export` takes too.

        Raises:
            ExportCompatError: see `infer_arguments`; an argument of `set_batch_dimension_for` was not observed.
        """
        self._batch = set_batch_dimension_for
        aligned, axes = self._aligned()
        self._check_sampled(aligned, axes)
        dim = None if names else require("torch", "torch").export.Dim.DYNAMIC
        shapes = {name: tree.shapes(lambda path: _dims(axes.get(path), dim)) for name, tree in aligned.trees.items()}
        extra = [name for name in shapes if name not in self._signature.parameters]
        wrapped = {name: {key: shapes.pop(key) for key in extra} for name in self._variable(Parameter.VAR_KEYWORD)}
        return {**shapes, **(wrapped if extra else {})}

    def _check_sampled(self, aligned: Aligned, axes: Axes) -> None:
        """Warn if the last sample has been enlarged along an axis that is now to be constant."""
        for path, tensor in self._sampled.items():
            for axis, size in enumerate(tensor.shape):
                seen = {shape[axis] for shape in aligned.shapes(path) if shape is not None}
                if axis not in axes.get(path, {}) and size not in seen and seen:
                    warnings.warn(
                        f"infer_arguments() has given {path!r} the size {size} along axis {axis}, which is constant "
                        "now; pass set_batch_dimension_for=True, or call infer_dynamic_shapes() before it",
                        stacklevel=3,
                    )
                    return

    def interface(self) -> tuple[list[str], list[str]]:
        """Return the names of the inputs and outputs, for `torch.onnx.export(input_names=..., output_names=...)`.

        A decoder has `past_key_values.{i}.key`, `past_key_values.{i}.value`, `logits`, `present.{i}.key`,
        `present.{i}.value`, and the names of its other arguments.

        Raises:
            ExportCompatError: see `infer_arguments`.
        """
        aligned, _ = self._aligned()
        return list(aligned.names().values()), list(tensor_outputs(self._records, aligned).values())

    def axes(self) -> dict[str, dict[int, str]]:
        """Return the names of the dynamic axes by input, as `infer_dynamic_shapes` was last asked for them."""
        aligned, axes = self._aligned()
        return {name: axes[path] for path, name in aligned.names().items()}

    def check_discrepancies(
        self,
        onnx_model: Any,
        *,
        tolerance: float | None = None,
        names: Mapping[str, str] | None = None,
        progress_bar: bool | Tell = False,
        provider: str = CPU,
        contract: Contract | None = None,
    ) -> Discrepancies:
        """Compare an exported file with what was observed, and a decoder also with eager on calls of other shapes.

        Inputs are found by name. A decoder is called as "works" is defined: prefill, decode, chunks, 32 tokens fed
        back, batches of 1 and 3, with and without left padding. Prints as a table.

        An output of another type than eager's is a difference too, for which there is one row; for a file of another
        exporter, which may promise other types, it is a note.

        Args:
            onnx_model: path of the file, or a `torch.onnx.ONNXProgram`.
            tolerance: largest absolute difference of any element; None for 1e-3. A file in half precision is compared
                as a copy in float32 with such a copy of the model, within 0.002 (float16) or 0.01 (bfloat16) of the
                largest element, and run as it is beside that, where ONNX Runtime has the kernels. A model that does
                not run in float32 is compared as it is, within 0.01 or 0.08.
            names: the observed name for inputs of the file that have another one; no schedule is run then.
            progress_bar: show a bar, or call a function with the number of calls that are done and that there are.
            provider: of ONNX Runtime that runs the file, `"CPUExecutionProvider"` or `"CUDAExecutionProvider"`; eager
                runs where the model is.
            contract: the calls that are compared, where a file of others promises less than all; of a decoder alone.
                None for what the file states.

        Raises:
            ExportCompatError: nothing was observed, the file cannot be loaded, the provider is not there, the file has
                inputs or outputs that were not observed, or a contract is given for what is no decoder.
            MissingExtraError: onnxruntime is not installed, or, for a bar, tqdm.
        """
        # What cannot be observed is said before a file is loaded.
        observed = self._observed(self._batch)
        with _saved(onnx_model) as path, telling(progress_bar) as tell:
            file, seen = open_file(path, provider), self
            if (windows := windows_of(file.metadata)) != self._windows:
                seen = self._within(windows)
                observed = seen._observed(self._batch)
            wide = seen._in_float32() if file.half else None
            if wide is None:
                made = replay(observed, file, tolerance, names or {}, tell, contract)
            else:
                half = HalfPrecisionFile(file)
                made = replay(wide._observed(self._batch), half, tolerance, names or {}, tell, contract)
            types = compare_types(observed, file)
        return Discrepancies([*types, *made], [*types.notes, *made.notes])

    def _within(self, windows: Mapping[str, int]) -> "InputObserver":
        """Return what has observed the same calls of a cache that holds no more than these windows; none for all."""
        made = copy.copy(self)
        made._windows = windows
        return made

    def _in_float32(self) -> "InputObserver | None":
        """Return what has observed the same calls of a copy of the model in float32; None if there can be none."""
        made = copy.copy(self)
        try:
            made._model, made._records = in_float32(self._model, self._method, self._records)
        except Exception:
            # Code may insist on a type, and raises exceptions of any class then.
            return None
        return made

    def _observed(self, batch: Collection[str] | bool | None) -> Observed:
        """Return what was observed, with the axes that are dynamic for such a `set_batch_dimension_for`."""
        aligned = self._alignment()
        axes = name_axes(aligned, batch)
        records = results_within(self._records, aligned)
        return Observed(self._model, self._method, self._signature, records, aligned, axes)

    def _rows(self) -> list[tuple[str, ...]]:
        """Return a row for each tensor of the arguments, with its shapes in the calls."""
        inputs = [record.inputs.tensors for record in self._records]
        paths = dict.fromkeys(path for tensors in inputs for path in tensors)
        heads = [f"CALL {number}" for number in range(1, len(inputs) + 1)]
        shown, more = heads[:_SHOWN], ["..."] if len(heads) > _SHOWN else []
        rows = [("ARGUMENT", "TYPE", *shown, *more)]
        for path in paths:
            found = [tensors.get(path) for tensors in inputs]
            kind = next(str(tensor.dtype).removeprefix("torch.") for tensor in found if tensor is not None)
            shapes = ["" if tensor is None else str(tuple(tensor.shape)) for tensor in found]
            rows.append((path, kind, *shapes[:_SHOWN], *more))
        return rows

    def _aligned(self) -> tuple[Aligned, Axes]:
        aligned = self._alignment()
        return aligned, name_axes(aligned, self._batch)

    def _alignment(self) -> Aligned:
        records = embedded(self._records, self._model)
        is_pair = _part(self._model) is not None
        own = () if is_pair or not self._has_own_positions() else (POSITION_IDS,)
        return within_windows(align(records, self._signature, self._missing, is_pair=is_pair, own=own), self._windows)

    def _has_own_positions(self) -> bool:
        """Say whether the model makes positions itself that are not those of a decoder's interface."""
        if self._own_positions is None and any(cache_name(record.inputs.trees) for record in self._records):
            # What is asked here is no call of the user's.
            self._is_asking = True
            try:
                first = self._records[0]
                self._own_positions = has_own_positions(self._model, self._method, self._signature, first)
            finally:
                self._is_asking = False
        return bool(self._own_positions)

    def _variable(self, kind: Any) -> list[str]:
        return names_of(self._signature, kind)

    def _split(self, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments; by position only what the signature asks for."""
        variable = self._variable(Parameter.VAR_POSITIONAL)
        before = list(self._signature.parameters)
        before = before[: before.index(variable[0])] if variable and variable[0] in arguments else []
        names = [*self._variable(Parameter.POSITIONAL_ONLY), *before]
        args = [arguments.pop(name) for name in dict.fromkeys(names) if name in arguments]
        return (*args, *(item for name in variable for item in arguments.pop(name, ()))), arguments


def with_windows(observer: InputObserver) -> tuple[InputObserver, dict[str, int]]:
    """Return an observer of the same calls whose cache holds windows, and these in tokens, by the name of an input.

    Raises:
        ExportCompatError: no layer slides, a window is too small, or the calls have no mask.
    """
    windows = sliding_windows(observer._alignment(), observer._model)
    return observer._within(windows), windows


def says_no_cache(observer: InputObserver, refusal: NoCacheError) -> InputObserver:
    """Return an observer of the same calls, of which a sentence says why they have no cache."""
    made = copy.copy(observer)
    made._no_cache = refused(refusal)
    return made


def no_cache(observer: InputObserver) -> str:
    """Return a sentence if a model generates, and what was observed has no cache; empty for others."""
    return observer._no_cache or without_cache(observer._observed(None))


def no_cache_facts(observer: InputObserver) -> dict[str, str]:
    """Return what the metadata of a file says of a cache that is not there; nothing of one that is."""
    said = no_cache(observer)
    return {NO_CACHE: said, **({OBSERVED: BY_FORWARD} if observer._no_cache else {})} if said else {}


def takes_one_token_alone(observer: InputObserver) -> bool:
    """Say whether eager goes on from the last call of a decoder by one token, and refuses two in its place."""
    aligned, axes = observer._aligned()

    def refuses(new: int) -> bool:
        args, kwargs = observer._split(_export_sample.build(aligned, _export_sample.last_call(aligned, axes, new)))
        method = getattr(observer._model, observer._method)
        return eager_refusal(observer._model, lambda: method(*args, **kwargs)) is not None

    return refuses(2) and not refuses(1)


def lengths_without_cache(observer: InputObserver) -> list[int]:
    """Return how many tokens each call has; none if a call has a cache, or no tokens."""
    aligned = observer._alignment()
    if cache_name(aligned.trees) or not all("input_ids" in call for call in aligned.calls):
        return []
    return [int(call["input_ids"].shape[1]) for call in aligned.calls]


def refused_together(observer: InputObserver) -> str:
    """Say what of the later calls eager refuses, empty, beside what the first call has alone; empty if nothing."""
    first, *others = [set(record.inputs.trees) for record in observer._records]
    later = set[str]().union(*others)
    if not first - later or not later - first:
        return ""
    args, kwargs = observer.infer_arguments(0, as_args_kwargs=True)
    method = getattr(observer._model, observer._method)
    found = eager_refusal(observer._model, lambda: method(*args, **kwargs))
    sides = [" and ".join(sorted(names)) for names in (later - first, first - later)]
    return "" if found is None else f"{sides[0]} of later calls beside {sides[1]} of the first one: {first_line(found)}"


@contextmanager
def _saved(onnx_model: Any) -> Iterator[Path]:
    """Give the path of a file; that of a program is gone afterwards."""
    if not hasattr(onnx_model, "save"):
        yield Path(onnx_model)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx_model.save(str(path))
        yield path


def _part(model: Any) -> "TextDecoder | None":
    """Return the model if it is a `TextDecoder`, without importing the class: what there is of it has done so."""
    decoders = sys.modules.get("exportcompat._encoder_decoder")
    return model if decoders is not None and isinstance(model, decoders.TextDecoder) else None


def _whole(model: Any) -> Any:
    """Return the module whose calls are watched."""
    part = _part(model)
    return model if part is None else part.model


def _without_features(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature without the features of images: `generate` then hands over the images (5.18 and later)."""
    kept = [parameter for name, parameter in signature.parameters.items() if name != "mm_encoder_outputs"]
    return signature.replace(parameters=kept)


def _dims(axes: dict[int, str] | None, dim: Any) -> dict[int, Any] | None:
    return None if axes is None else {axis: dim or name for axis, name in axes.items()}
