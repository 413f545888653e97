"""Calls with embeddings in place of tokens: `generate(inputs_embeds=...)` has them in its first call alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from exportcompat._extras import require

from ._record import Part, Record
from ._tree import Tree

TOKENS, EMBEDDINGS = "input_ids", "inputs_embeds"


def embeddings_of(model: Any) -> Any:
    """Return the module that embeds tokens; None for a model that has none, or does not say which."""
    try:
        return getattr(model, "get_input_embeddings", lambda: None)()
    except (NotImplementedError, AttributeError):
        # So does transformers for a class that does not follow its names.
        return None


def embedded(records: list[Record], model: Any) -> list[Record]:
    """Return the calls with embeddings in each if a call has them without tokens: one graph takes one or the other.

    The later calls of `generate` have tokens, `(batch, sequence)`, whose embeddings, `(batch, sequence, hidden)`, are
    what the model itself would compute of them.
    """
    is_embedded = any(EMBEDDINGS in record.inputs.trees and TOKENS not in record.inputs.trees for record in records)
    module = embeddings_of(model) if is_embedded else None
    if module is None:
        return records
    return [replace(record, inputs=_with_embeddings(record.inputs, module)) for record in records]


def embed(model: Any, inputs: Mapping[str, Any]) -> Any:
    """Return the embeddings of the tokens of a call, `(batch, sequence, hidden)`."""
    return _embed(embeddings_of(model), inputs[TOKENS])


def _embed(module: Any, tokens: Any) -> Any:
    with require("torch", "torch").no_grad():
        return module(tokens.to(module.weight.device)).detach()


def _with_embeddings(part: Part, module: Any) -> Part:
    if TOKENS not in part.tensors or EMBEDDINGS in part.tensors:
        return part
    trees = {EMBEDDINGS if name == TOKENS else name: tree for name, tree in part.trees.items()}
    tensors = {name: tensor for name, tensor in part.tensors.items() if name != TOKENS}
    return Part(
        {**trees, EMBEDDINGS: Tree(EMBEDDINGS)},
        {**tensors, EMBEDDINGS: _embed(module, part.tensors[TOKENS])},
        part.constants,
    )
