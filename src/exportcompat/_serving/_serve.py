"""From a file that is right for everything, a faster one that is right for what its metadata states."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from exportcompat._observer import InputObserver
from exportcompat._verification import FIRST, LATER, Contract, Discrepancies, OnnxDecoder, OnnxFile, contract_of
from exportcompat.registry import ExportCompatError

from ._decoder_parts import STATES
from ._files import load, write
from ._serve_parts import serve_parts
from ._served import Attempt, Say, Served
from ._targets import Derivation, Target, find_target
from ._timing import compare_times, is_faster
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
        _check_parts(output, weights)
        return serve_parts(
            path, None if unverified else _needed(observer), chosen, contract_of(file.metadata), tolerance, say
        )
    output = output or path.with_name(f"{path.stem}_{target}.onnx")
    with TemporaryDirectory(dir=path.parent, prefix=".serve.") as folder:
        if unverified:
            return _unverified(path, chosen, output)
        run = _Run(path, Path(folder), _needed(observer), tolerance, chosen.provider, say)
        for derivation in chosen.derivations:
            run.attempt(derivation)
        return run.finish(chosen, output, weights)


def _needed(observer: InputObserver | None) -> InputObserver:
    if observer is None:
        raise ExportCompatError("a file is compared with the model: an observer is needed, or unverified=True")
    return observer


def _check_parts(output: Path | None, weights: Weights | None) -> None:
    """Refuse for an encoder-decoder what is for one file alone."""
    if output is not None:
        raise ExportCompatError(
            f"an output ({output}) is for decoders of one file; those of an encoder-decoder have names of their own"
        )
    if weights is not None:
        raise ExportCompatError(f"weights={weights!r} are for decoders of one file, and this is an encoder-decoder")


class _Run:
    """The best file so far, and what was tried."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        observer: InputObserver,
        tolerance: float | None,
        provider: str,
        say: Say,
    ) -> None:
        self._plain, self._best, self._folder = path, path, folder
        self._observer, self._tolerance, self._provider, self._say = observer, tolerance, provider, say
        self._attempts: list[Attempt] = []
        self._found: Discrepancies | None = None

    def attempt(self, derivation: Derivation) -> None:
        """Try one derivation on the best file."""
        self._say(f"{derivation.name} ...")
        made = self._folder / f"{derivation.name}.onnx"
        name = derivation.name
        if not derive(self._best, made, [derivation]):
            self._attempts.append(Attempt(name, kept=False, reason="the graph has no place for it"))
            return
        ratios = compare_times(made, self._best, self._provider)
        if not is_faster(ratios):
            self._attempts.append(Attempt(name, kept=False, reason="it is not faster", ratios=ratios))
            return
        found = self._observer.check_discrepancies(made, tolerance=self._tolerance, provider=self._provider)
        if not found.success:
            self._attempts.append(Attempt(name, kept=False, reason=f"it is wrong: {found.summary}", ratios=ratios))
            return
        self._attempts.append(Attempt(name, kept=True, reason="it is right and faster", ratios=ratios))
        self._best, self._found = made, found

    def finish(self, target: Target, output: Path, weights: Weights | None) -> Served:
        """Write the best file, if there is one that is better than the plain one, with the wanted weights."""
        contract, loss, notes = contract_of(OnnxFile(self._best).metadata), None, []
        if weights is not None:
            self._say(f"{weights} ...")
            small = self._folder / "weights.onnx"
            loss = shrink(self._best, small, weights)
            times = compare_times(small, self._best, self._provider)
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
        return Served(None, target.name, Contract(), [Attempt("all", kept=False, reason="the graph has no place")])
    model = load(output)
    contract = contract_of(dict(model.metadata_props))
    write(model, output, {"target": target.name, "verified": "no", "derivations": ",".join(done)})
    attempts = [Attempt(name, kept=True, reason="neither compared nor timed") for name in done]
    return Served(output, target.name, contract, attempts, notes=["UNVERIFIED: compare and time it where it runs"])
