"""One observed call: what went in, what came out, and how long it took."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any

from exportcompat._extras import require
from exportcompat._text_config import text_config
from exportcompat.patches.toolkit.cache_names import CACHES, cache_name
from exportcompat.patches.toolkit.encoder_outputs import ENCODER_OUTPUTS
from exportcompat.registry import ExportCompatError

from ._tree import Tree, build_all, flatten

_SCALARS = (bool, int, float, complex, str, type(None))

DERIVED = ("cache_position", "last_cache_position", "next_sequence_length", "is_first_iteration")
"""What transformers hands to `forward` for its own book-keeping, or can be told from cache or mask: no interface."""

STORED = ("rope_deltas", *ENCODER_OUTPUTS)
"""Parts of a result that a graph cannot have: what the first call has put into an attribute (Qwen-VL to 5.22), and what
encoders have returned, with an item for each image (from 5.24 on)."""

TRIMMING = ("logits_to_keep", "num_logits_to_keep")
"""What `generate` passes to save work; a graph gives the logits of every token."""


@dataclass(frozen=True)
class Part:
    """Arguments or results of one call, taken apart.

    Attributes:
        trees: structure by argument (for results: one tree under the name "").
        tensors: by path.
        constants: numbers, texts and None, by path.
    """

    trees: dict[str, Tree] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Return what was taken apart as it was, by argument; a call may write to its tensors, which are copies."""
        return build_all(self.trees, self.constants | {path: tensor.clone() for path, tensor in self.tensors.items()})

    def add(self, name: str, value: Any) -> None:
        """Take `value` apart; its tensors are cloned, for later calls may write to them.

        Raises:
            ExportCompatError: a leaf is neither a tensor nor a constant.
        """
        torch = require("torch", "torch")
        tree, leaves = flatten(name, value)
        for path, leaf in leaves.items():
            if isinstance(leaf, torch.Tensor):
                self.tensors[path] = leaf.detach().clone()
            elif isinstance(leaf, _SCALARS):
                self.constants[path] = leaf
            else:
                raise ExportCompatError(_opaque(name, path, leaf))
        self.trees[name] = tree


@dataclass(frozen=True)
class Record:
    """One call that has returned.

    Attributes:
        inputs: the arguments by name.
        outputs: the result.
        kept: tokens whose logits were asked for; 0 for all of them.
        seconds: time of the call.
        has_drawn: a generator of torch has drawn random numbers meanwhile.
    """

    inputs: Part
    outputs: Part
    kept: int
    seconds: float
    has_drawn: bool = False


def take(arguments: Mapping[str, Any], is_dropped: Callable[[str, Any], bool]) -> Part:
    """Take the arguments of a call apart, without those that are dropped.

    Raises:
        ExportCompatError: an argument is of a class that is no pytree node.
    """
    part = Part()
    for name, value in arguments.items():
        if value is not None and not is_dropped(name, value):
            part.add(name, value)
    return part


def take_result(result: Any) -> Part:
    """Take a result apart, without what is no result of a graph."""
    part = Part()
    if isinstance(result, Mapping) and any(name in result for name in STORED):
        result = {name: value for name, value in result.items() if name not in STORED}
    part.add("", result)
    return part


def bound(signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, in the order of the signature; those behind `**` follow with their own names.

    A cache that was given by the name of an older release has the one that the signature has.

    Raises:
        TypeError: they do not fit the signature.
    """
    cache = cache_name(signature.parameters)
    old = next((name for name in CACHES if name in kwargs and name not in signature.parameters), "")
    given = {cache if cache and name == old else name: value for name, value in kwargs.items()}
    arguments = dict(signature.bind(*args, **given).arguments)
    extra = names_of(signature, Parameter.VAR_KEYWORD)
    others = {name: value for key in extra for name, value in arguments.pop(key, {}).items()}
    return {**arguments, **others}


def names_of(signature: Signature, kind: Any) -> list[str]:
    """Return the names of the parameters of one kind."""
    return [name for name, parameter in signature.parameters.items() if parameter.kind is kind]


def is_default(name: str, value: Any, signature: Signature, config: Any) -> bool:
    """Say whether the method does the same without a constant.

    It does if the value is the signature's default. By a convention of transformers, a bool without a default of its
    own stands for what the configuration has under the same name (`use_cache`, `return_dict`, `output_attentions`).
    A model of images and texts may leave it to its text model, which asks its own part of the configuration: the
    two have to say the same.
    """
    if not isinstance(value, _SCALARS):
        return False
    parameter = signature.parameters.get(name)
    default = None if parameter is None else parameter.default
    if default is None and type(value) is bool:
        return all(getattr(asked, name, None) is value for asked in (config, text_config(config)))
    return type(default) is type(value) and bool(default == value)


def kept_tokens(arguments: Mapping[str, Any], names: Collection[str] = TRIMMING) -> int:
    """Return how many tokens have logits, 0 for all."""
    return next((value for name in names if type(value := arguments.get(name)) is int), 0)


def _opaque(name: str, path: str, leaf: Any) -> str:
    where = f"argument {name!r}" if name else "the result"
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    return (
        f"{where} has a {kind} at {path or 'its top'!r}, which is no tensor, no number and no pytree node; observe "
        "inside apply_patches(), which makes caches nodes, or register the class with torch.utils._pytree"
    )
