"""From a file that is right for everything, a faster one that is right for what its metadata states."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from exportcompat._observer import InputObserver
from exportcompat._verification import FIRST, LATER, Contract, Discrepancies, OnnxDecoder, OnnxFile, contract_of
from exportcompat.registry import ExportCompatError

from ._decoder_parts import STATES
from ._files import load, write
from ._judge import NO_PLACE, UNVERIFIED, Judge, check_parts
from ._judge import unverified as said_unverified
from ._serve_parts import serve_parts
from ._served import Attempt, Say, Served
from ._targets import Derivation, Target, find_target
from ._timing import compare_times
from ._weights import Weights, check_weights, shrink


def serve(
    path: Path,
    observer: InputObserver | None,
    target: str = "cpu",
    *,
    output: Path | None = None,
    weights: Weights | None = None,
    unverified: bool = False,
    tolerance: float | None = None,
    say: Say | None = None,
) -> Served:
    """Derive a file for a runtime, compare it with eager within its contract, and time it beside the plain one.

    Args:
        path: a file of a decoder with a cache, as `export` writes it; that of an encoder-decoder becomes two, one for
            first calls and one for later ones, with the names that optimum has for them.
        observer: has watched the model; None only for a file that is not to be compared.
        target: `"cpu"`, `"cuda"` where onnxruntime-gpu and a GPU are, or, unverified, `"webgpu"`.
        output: the file to write; None for `<name>_<target>.onnx` beside the plain one. Not for an encoder-decoder.
        weights: `"int8"`, `"int4"` or `"int4-zero-points"`; None for the weights as they are. Not for an
            encoder-decoder.
        unverified: write a file for a runtime that is not here, neither compared nor timed.
        tolerance: see `InputObserver.check_discrepancies`.
        say: gets a line for each step.

    Raises:
        ExportCompatError: the target cannot be used here, or the file is no decoder with a cache.
        MissingExtraError: a package is not installed.
    """
    check_weights(weights)
    chosen, say = find_target(target, unverified=unverified), say or (lambda _: None)
    if path.name in (FIRST, LATER):
        raise ExportCompatError(
            f"{path} is one of the two files of a decoder; derive them of the one file, decoder_model_merged.onnx"
        )
    file = OnnxFile(path)
    decoder = OnnxDecoder(file)
    if not decoder.takes_past:
        raise ExportCompatError(f"{path} has no cache; files are derived of decoders with one")
    if STATES in decoder.inputs:
        check_parts(weights, output)
        judge = None if unverified else Judge(_needed(observer), tolerance, chosen.provider)
        return serve_parts(path, judge, target, contract_of(file.metadata), say)
    output = output or path.with_name(f"{path.stem}_{target}.onnx")
    with TemporaryDirectory(dir=path.parent, prefix=".serve.") as folder:
        if unverified:
            return _unverified(path, chosen, output)
        run = _Run(path, Path(folder), Judge(_needed(observer), tolerance, chosen.provider), say)
        for derivation in chosen.derivations:
            run.attempt(derivation)
        return run.finish(chosen, output, weights)


def _needed(observer: InputObserver | None) -> InputObserver:
    if observer is None:
        raise ExportCompatError("a file is compared with the model: an observer is needed, or unverified=True")
    return observer


class _Run:
    """The best file so far, and what was tried."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        judge: Judge,
        say: Say,
    ) -> None:
        self._plain, self._best, self._folder = path, path, folder
        self._judge, self._say = judge, say
        self._attempts: list[Attempt] = []
        self._found: Discrepancies | None = None

    def attempt(self, derivation: Derivation) -> None:
        """Try one derivation on the best file."""
        self._say(f"{derivation.name} ...")
        made = self._folder / f"{derivation.name}.onnx"
        if not derive(self._best, made, [derivation]):
            self._attempts.append(Attempt(derivation.name, kept=False, reason=NO_PLACE))
            return
        attempt, found = self._judge.verdict(derivation.name, made, self._best)
        self._attempts.append(attempt)
        if attempt.kept:
            self._best, self._found = made, found

    def finish(self, target: Target, output: Path, weights: Weights | None) -> Served:
        """Write the best file, if there is one that is better than the plain one, with the wanted weights."""
        contract, loss, notes = contract_of(OnnxFile(self._best).metadata), None, []
        if weights is not None:
            self._say(f"{weights} ...")
            small = self._folder / "weights.onnx"
            loss = shrink(self._best, small, weights)
            times = compare_times(small, self._best, self._judge.provider)
            notes.append(f"time with {weights}: {', '.join(map(str, times))}")
            self._best = small
        elif self._best == self._plain:
            return Served(None, target.name, contract, self._attempts)
        facts = {"target": target.name, "verified": "within its contract", "derivations": ",".join(self._kept())}
        write(load(self._best), output, {**facts, **({} if loss is None else loss.to_metadata())})
        return Served(output, target.name, contract, self._attempts, self._found, loss, notes)

    def _kept(self) -> list[str]:
        return [item.name for item in self._attempts if item.kept]


def derive(path: Path, output: Path, derivations: Sequence[Derivation]) -> list[str]:
    """Write a file with some derivations, and return the names of those that had a place."""
    model = load(path)
    contract = contract_of(dict(model.metadata_props))
    done = []
    for item in derivations:
        if item.change(model):
            contract = contract.narrowed(item.contract)
            done.append(item.name)
    model.metadata_props.update(contract.to_metadata())
    if done:
        write(model, output)
    return done


def _unverified(path: Path, target: Target, output: Path) -> Served:
    done = derive(path, output, target.derivations)
    if not done:
        return Served(None, target.name, Contract(), [Attempt("all", kept=False, reason=NO_PLACE)])
    model = load(output)
    contract = contract_of(dict(model.metadata_props))
    write(model, output, {"target": target.name, "verified": "no", "derivations": ",".join(done)})
    return Served(output, target.name, contract, [said_unverified(name) for name in done], notes=[UNVERIFIED])
