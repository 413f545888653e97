"""Which axes are dynamic, and what they are called."""

from collections.abc import Collection, Mapping
from typing import Any

from exportcompat.registry import ExportCompatError

from ._alignment import GROWING, INDEXING, POSITIONS, Aligned

Axes = dict[str, dict[int, str]]
"""Name by axis, by path; an axis that is not there is constant."""

Vector = tuple[int | None, ...]
"""The size of an axis in each call; None where the call does not have the tensor."""

BATCH, SEQUENCE, PAST, TOTAL = "batch", "sequence", "past_sequence", "total_sequence"
MEMORY = "memory"
PAST_WINDOW = "past_window"
"""Begins the name of the past of layers that hold a window; its tokens end the name."""
STATES, PAST_STATES, ALL_STATES = "encoder_sequence", "past_encoder_sequence", "total_encoder_sequence"
"""Of what a `TextDecoder` is given: states in a call, in the cache, and in both."""
_ROLES: Mapping[tuple[str, int], Mapping[int, str]] = {
    ("input_ids", 2): {0: BATCH, 1: SEQUENCE},
    ("inputs_embeds", 3): {0: BATCH, 1: SEQUENCE},
    ("attention_mask", 2): {0: BATCH, 1: TOTAL},
    ("position_ids", 2): {0: BATCH, 1: SEQUENCE},
    # Multimodal rotary positions have an axis of three kinds (time, height, width) before the batch.
    ("position_ids", 3): {1: BATCH, 2: SEQUENCE},
    ("encoder_hidden_states", 3): {0: BATCH, 1: STATES},
    ("encoder_attention_mask", 2): {0: BATCH, 1: ALL_STATES},
    ("decoder_input_ids", 2): {0: BATCH, 1: "decoder_sequence"},
    ("decoder_attention_mask", 2): {0: BATCH, 1: "decoder_sequence"},
    ("token_type_ids", 2): {0: BATCH, 1: SEQUENCE},
    ("mm_token_type_ids", 2): {0: BATCH, 1: SEQUENCE},
    # Kosmos-2.5: which tokens are places of an image.
    ("image_embeds_position_mask", 2): {0: BATCH, 1: SEQUENCE},
    # A row for each image, and not for each text, although `generate` passes some of them with every call.
    **{(name, 2): {0: f"{name}_0"} for name in ("image_grid_thw", "video_grid_thw", "image_sizes")},
    # A vision encoder by itself: patches of all images, which are as many as their sizes say.
    ("hidden_states", 2): {0: "patches"},
    # XLNet: who sees whom, and whose next token is wanted.
    ("perm_mask", 3): {0: BATCH, 1: SEQUENCE, 2: SEQUENCE},
    ("target_mapping", 3): {0: BATCH, 2: SEQUENCE},
    # Any number of images, or of parts of an image, for each text.
    ("pixel_values", 5): {1: "images"},
    ("pixel_attention_mask", 4): {1: "images"},
}

_DECODER_ROLES: Mapping[tuple[str, int], Mapping[int, str]] = {
    **_ROLES,
    # Several tokens for each step of a sound; without a cache the second of three axes is a choice.
    ("input_ids", 3): {0: BATCH, 1: SEQUENCE},
    # Pocket TTS: a state of sound in the place of each token that stands for one; a prompt has none of these.
    ("audio_latents", 3): {0: BATCH, 1: SEQUENCE},
    # `generate` goes on passing them where there are no images any more; a vision encoder itself has some in each row.
    ("spatial_shapes", 2): {0: "spatial_shapes_0"},
}

GRIDS = ("image_grid_thw", "image_grid_hw", "grid_thw")
"""Arguments that say how many patches an image has; where there is one, images are rows of patches."""
_PATCHES = ("pixel_values", 2)
"""Rows of patches of all images, and how many axes they have."""

_TILES: Mapping[str, int] = {"pixel_attention_mask": 2, "pixel_values": 5}
"""Arguments that say which parts of an image are no padding, and the parts, with how many axes these have."""

_MEMORIES = "mems"
"""The argument of XLNet and its kin that has states of tokens so far, `(memory, batch, hidden)` for each layer."""

_COMPRESSED: Mapping[str, str] = {
    **dict.fromkeys(("buffer_kv", "buffer_gate"), "open"),
    "compressed_kv": "entries",
    **dict.fromkeys(("overlap_kv", "overlap_gate"), "window"),
}
"""What the second axis of a leaf of a compressed past counts, by the end of its name: `(batch, ..., channels)`."""


def past_axis(aligned: Aligned, path: str) -> int | None:
    """Return the axis of a tensor of a cache that is empty at first; None if there is none.

    It is the third of keys and values, `(batch, kv_heads, past, head_dim)`, and the second of the keys of an indexer,
    `(batch, past, head_dim)`, as layers with sparse attention have them, and of a past that is kept compressed. The
    positions of such keys are `(3, batch, past)`.
    """
    if aligned.argument(path) != aligned.cache:
        return None
    leaf, rank = path.rpartition(".")[2], aligned.donors[path].dim()
    if rank == 3 and (leaf in INDEXING or _compressed(leaf)):
        return 1
    return 2 if (leaf in GROWING and rank == 4) or (leaf in POSITIONS and rank == 3) else None


def _compressed(leaf: str) -> str | None:
    """Return what a leaf of a compressed past counts; None for any other leaf."""
    return next((what for name, what in _COMPRESSED.items() if leaf.endswith(f"_{name}")), None)


def _compressed_role(aligned: Aligned, path: str) -> str | None:
    """Return the name of an axis of a compressed past: layers that have the same leaves fill and close alike.

    A few calls of short texts cannot tell two kinds of layers apart, nor such an axis from the past.
    """
    layer, _, leaf = path.rpartition(".")
    what = _compressed(leaf)
    if what is None:
        return None
    leaves: dict[str, set[str]] = {}
    for other in aligned.paths:
        if aligned.argument(other) == aligned.cache:
            leaves.setdefault(other.rpartition(".")[0], set()).add(other.rpartition(".")[2])
    first = next(other for other, found in leaves.items() if found == leaves[layer])
    return f"layer_{first.rpartition('.')[2]}_{what}"


def name_axes(aligned: Aligned, batch: Collection[str] | bool | None) -> Axes:
    """Return the dynamic axes: those that varied, the batch where it is asked for, and those of a decoder's interface.

    Args:
        aligned: the calls.
        batch: the arguments whose first axis is the batch; True for all.

    Raises:
        ExportCompatError: there is no such argument.
    """
    roles = {path: _roles(aligned, path) for path in aligned.paths}
    wanted = _batch_arguments(aligned, batch)
    sizes = {path: _vectors(aligned, path) for path in aligned.paths}
    dynamic = {path: _dynamic(aligned, path, vectors, roles[path], wanted) for path, vectors in sizes.items()}
    known = _known(aligned, roles, sizes, dynamic)
    return {path: _named(path, axes, roles[path], sizes, known) for path, axes in dynamic.items()}


def _roles(aligned: Aligned, path: str) -> Mapping[int, str]:
    past = past_axis(aligned, path)
    if past is not None:
        batch = 1 if path.rpartition(".")[2] in POSITIONS else 0
        return {batch: BATCH, past: _compressed_role(aligned, path) or _past_role(aligned, path)}
    rank = aligned.donors[path].dim()
    if aligned.argument(path) == _MEMORIES and rank == 3:
        return {0: MEMORY, 1: BATCH}
    if aligned.argument(path) == aligned.cache and rank > 1:
        # A state is in no first call, which hides that its first axis is the batch.
        return {0: BATCH}
    if are_patches(path, aligned.donors[path]) and not set(GRIDS).isdisjoint(aligned.paths):
        return {0: f"{path}_0"}
    tiles = {1: "images"} if path in _TILES and _has_tiles(aligned) else {}
    if aligned.is_decoder:
        return {**_DECODER_ROLES.get((path, rank), {}), **tiles}
    # Without a cache there is nothing before the sequence.
    alone = {TOTAL: SEQUENCE, ALL_STATES: STATES}
    return {**{axis: alone.get(role, role) for axis, role in _ROLES.get((path, rank), {}).items()}, **tiles}


def _has_tiles(aligned: Aligned) -> bool:
    """Say whether there are parts of images, and what says for each whether it is padding."""
    return all(name in aligned.donors and aligned.donors[name].dim() == rank for name, rank in _TILES.items())


def are_patches(path: str, tensor: Any) -> bool:
    """Say whether a tensor by this path has rows of patches in the place of images."""
    return (path, tensor.dim()) == _PATCHES


def _past_role(aligned: Aligned, path: str) -> str:
    window = aligned.windows.get(path)
    return PAST_STATES if ".encoder." in path else PAST if window is None else f"{PAST_WINDOW}_{window}"


def _batch_arguments(aligned: Aligned, batch: Collection[str] | bool | None) -> Collection[str]:
    if batch is True:
        return list(aligned.trees)
    names = [batch] if isinstance(batch, str) else list(batch or ())
    for name in names:
        if name not in aligned.trees:
            raise ExportCompatError(
                f"set_batch_dimension_for has {name!r}, which was not observed; arguments: {list(aligned.trees)}"
            )
    return names


def _vectors(aligned: Aligned, path: str) -> list[Vector]:
    shapes = aligned.shapes(path)
    rank = aligned.donors[path].dim()
    return [tuple(None if shape is None else shape[axis] for shape in shapes) for axis in range(rank)]


def _dynamic(
    aligned: Aligned, path: str, vectors: list[Vector], roles: Mapping[int, str], batch: Collection[str]
) -> list[int]:
    batch_axis = next((axis for axis, role in roles.items() if role == BATCH), 0)
    found = {axis for axis, vector in enumerate(vectors) if len({size for size in vector if size is not None}) > 1}
    if aligned.argument(path) in batch and vectors:
        found.add(batch_axis)
    if aligned.is_decoder:
        found |= {axis for axis, role in roles.items() if role != BATCH}
    if None in (vectors or [()])[0]:
        found |= {axis for axis in [absent_axis(aligned, path)] if axis is not None}
    return sorted(found)


def absent_axis(aligned: Aligned, path: str) -> int | None:
    """Return the axis that has size 0 where a call does not have the tensor; None for a state, which begins as zeros.

    It is the past of a cache, and else the first: no images, no segments. What goes with each token is zeros.
    """
    if aligned.argument(path) == aligned.cache:
        return past_axis(aligned, path)
    if aligned.is_decoder and SEQUENCE in _roles(aligned, path).values():
        return None
    return 0 if aligned.donors[path].dim() else None


def _known(
    aligned: Aligned, roles: Mapping[str, Mapping[int, str]], sizes: Mapping[str, list[Vector]], dynamic: Any
) -> dict[str, Vector]:
    """Return the sizes that stand for each role: those of the first tensor that is in every call."""
    known: dict[str, Vector] = {}
    for path, axes in dynamic.items():
        for axis in axes:
            role, vector = roles[path].get(axis), sizes[path][axis]
            if role is not None and (axis == past_axis(aligned, path) or role == MEMORY):
                known.setdefault(role, tuple(size or 0 for size in vector))
            elif None not in vector and (role or _is_batch(axis, vector)):
                known.setdefault(role or BATCH, vector)
    if {SEQUENCE, PAST, TOTAL} <= known.keys():
        parts = zip(known[SEQUENCE], known[PAST], strict=True)
        if known[TOTAL] != tuple((new or 0) + (past or 0) for new, past in parts):
            # A mask of another length, such as that of a static cache, is an axis of its own.
            del known[TOTAL]
    return known


def _named(
    path: str, axes: list[int], roles: Mapping[int, str], sizes: Mapping[str, list[Vector]], known: dict[str, Vector]
) -> dict[int, str]:
    names: dict[int, str] = {}
    for axis in axes:
        role, vector = roles.get(axis), sizes[path][axis]
        role = BATCH if role is None and _is_batch(axis, vector) else role
        names[axis] = role if role in known and _fits(vector, known[role]) else _tied(path, axis, sizes, known)
    return names


def _is_batch(axis: int, vector: Vector) -> bool:
    """Say whether an axis without a role can be the batch: images that only some calls have are none."""
    return axis == 0 and None not in vector and 0 not in vector


def _fits(vector: Vector, known: Vector) -> bool:
    """Say whether sizes are those of a role, in the calls that have the tensor."""
    return all(size in (None, other) for size, other in zip(vector, known, strict=True))


def _tied(path: str, axis: int, sizes: Mapping[str, list[Vector]], known: dict[str, Vector]) -> str:
    """Return the name of another axis that had the same sizes in every call, or add a name of its own to `known`.

    Two axes of one tensor are never tied: images that were all square are no reason to ask for squares.
    """
    vector = sizes[path][axis]
    is_varied = None not in vector and len(set(vector)) > 1
    is_unique = all(vectors.count(vector) < 2 for vectors in sizes.values())
    if is_varied and is_unique:
        for name, other in known.items():
            if other == vector and name not in (PAST, PAST_STATES, BATCH):
                return name
    own = f"{path.replace('.', '_')}_{axis}"
    known[own] = vector
    return own
