"""Where patches are, against loops over the sizes of images; sizes that do not fit are refused by the graph."""

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="places are tensors")

from exportcompat import apply_patches
from exportcompat.matrix.cases._catalogue import find_case
from exportcompat.patches.multimodal.placeholder_count import patch_get_placeholder_mask
from exportcompat.patches.vision._patch_coordinates import (
    corners,
    find_patch_coordinates,
    frame_ends,
    segments,
    window_order,
)
from exportcompat.patches.vision._segment_batch import side_by_side
from exportcompat.patches.vision._segment_blocks import in_blocks

_SCAN = "torch.onnx._internal.exporter._torchlib.ops.hop"

DIVIDED = [side_by_side, in_blocks]
"""What attends within segments: as the rows of a batch, and by blocks of queries."""

GRIDS = (
    ((1, 16, 16),),
    ((1, 12, 12),),
    ((1, 10, 14), (1, 18, 18)),
    ((2, 8, 12), (1, 20, 20), (3, 4, 6)),
    ((4, 2, 2),),
    (),
)


def sizes_of(grids: Any) -> tuple[Any, int]:
    sizes = torch.tensor(grids, dtype=torch.int64).reshape(-1, 3)
    return sizes, int(sizes.prod(1).sum())


def loop_over_windows(grids: Any, merge: int, side: int) -> tuple[list[int], list[int]]:
    """Return merged patches window by window, and the ends of the windows in patches."""
    order, ends, first = list[int](), [0], 0
    for frames, height, width in grids:
        rows, columns = height // merge, width // merge
        for frame in range(frames):
            for top in range(0, rows, side):
                for left in range(0, columns, side):
                    order += [
                        first + frame * rows * columns + row * columns + column
                        for row in range(top, min(top + side, rows))
                        for column in range(left, min(left + side, columns))
                    ]
                    ends.append(len(order) * merge * merge)
        first += frames * rows * columns
    return order, ends


@pytest.mark.parametrize("side", [1, 2, 3, 4])
@pytest.mark.parametrize("grids", GRIDS)
def test_windows_are_those_of_a_loop(grids: Any, side: int) -> None:
    order, ends = window_order(*sizes_of(grids), 2, side)
    wanted, bounds = loop_over_windows(grids, 2, side)
    assert order.tolist() == wanted
    assert ends.unique_consecutive().tolist() == bounds


@pytest.mark.parametrize("grids", GRIDS[:-1])
def test_places_are_those_of_transformers(grids: Any) -> None:
    utils = pytest.importorskip("transformers.vision_utils", reason="younger than 5.8")
    sizes, count = sizes_of(grids)
    places = find_patch_coordinates(sizes, count, 2)
    assert torch.equal(torch.stack([places.row, places.column], 1), utils.get_vision_position_ids(sizes, 2))
    assert torch.equal(frame_ends(sizes, count).unique_consecutive().int(), utils.get_vision_cu_seqlens(sizes))
    indices, weights = corners(sizes, count, 2, 7)
    wanted, parts = utils.get_vision_bilinear_indices_and_weights(sizes, 7, 2)
    assert torch.equal(indices, wanted)
    assert torch.allclose(weights, parts, atol=1e-6)


def test_ends_may_repeat() -> None:
    assert segments(torch.tensor([0, 2, 2, 2, 5]), 5).unique_consecutive(return_counts=True)[1].tolist() == [2, 3]


@pytest.mark.parametrize("divide", DIVIDED)
@pytest.mark.parametrize("shape", [(1, 3, 9, 4), (3, 9, 4)])
@pytest.mark.parametrize("ends", [[0, 9], [0, 4, 5, 9], [0, 4, 4, 4, 9], list(range(10))])
def test_segments_attend_as_with_a_mask(ends: list[int], shape: tuple[int, ...], divide: Any) -> None:
    attention = torch.nn.functional.scaled_dot_product_attention

    def product(query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        # ONNX Runtime refuses a mask with one row for all queries.
        assert attn_mask is None or attn_mask.shape[-2] == query.shape[-2]
        return attention(query, key, value, attn_mask)

    parts = torch.randn((3, *shape), generator=torch.Generator().manual_seed(0))
    own = segments(torch.tensor(ends), 9)
    found = divide(torch.tensor(ends, dtype=torch.int32), 9).attend(product, *parts, attn_mask=None)
    torch.testing.assert_close(found, attention(*parts, attn_mask=own[:, None] == own))


@pytest.mark.parametrize(
    ("lengths", "size", "blocks"),
    [([64] * 5, 64, 5), ([250] * 3, 250, 3), ([300, 300], 150, 4), ([1], 2, 1), ([600, 10, 1, 201], 200, 7)],
)
def test_blocks_are_filled_and_have_patches_of_one_segment(lengths: list[int], size: int, blocks: int) -> None:
    ends = torch.tensor([0, *lengths]).cumsum(0)
    found = in_blocks(ends, sum(lengths))
    assert (found.size, len(found.first)) == (size, blocks)
    block, row = found.place // size, found.place % size
    assert torch.equal(found.first[block] + row, torch.arange(sum(lengths)))
    assert torch.equal(found.begin[block], ends[:-1].repeat_interleave(torch.tensor(lengths)))
    assert torch.equal(found.length[block], torch.tensor(lengths).repeat_interleave(torch.tensor(lengths)))


@pytest.mark.parametrize("divide", DIVIDED)
def test_heads_of_segments_are_shared(divide: Any) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, heads, 9, 8) for heads in (4, 2, 2))
    product = torch.nn.functional.scaled_dot_product_attention
    parts = [tuple(item[..., begin:end, :] for item in (query, key, value)) for begin, end in ((0, 4), (4, 9))]
    wanted = torch.cat([product(*part, enable_gqa=True) for part in parts], -2)
    found = divide(torch.tensor([0, 4, 9]), 9).attend(product, query, key, value, enable_gqa=True)
    torch.testing.assert_close(found, wanted)


class _Attention(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch comes from importorskip.
    def forward(self, query: Any, key: Any, value: Any, ends: Any) -> Any:
        product = torch.nn.functional.scaled_dot_product_attention
        return in_blocks(ends, query.shape[2]).attend(product, query, key, value)


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a session of attention by blocks, from a sample of 12 patches."""
    runtime = pytest.importorskip("onnxruntime", reason="the file is run")
    pytest.importorskip(_SCAN, reason="torch puts `scan` into ONNX since 2.9")
    path, axis = tmp_path_factory.mktemp("blocks") / "attention.onnx", torch.export.Dim.DYNAMIC
    given, shapes = (*torch.randn(3, 1, 2, 12, 8), torch.tensor([0, 4, 12])), (*({2: axis},) * 3, {0: axis})
    with apply_patches():
        program = torch.onnx.export(_Attention().eval(), given, dynamic_shapes=shapes, dynamo=True, verbose=False)
    program.save(path)
    return runtime.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "lengths", [[2], [1], [1, 1], [255], [256], [257], [513], [64] * 9, [600, 10, 1, 201], [3, 700], [1000]]
)
def test_a_graph_of_blocks_is_right_for_any_segments(attention: Any, lengths: list[int]) -> None:
    count, ends = sum(lengths), torch.tensor([0, *lengths]).cumsum(0)
    parts = torch.randn((3, 1, 2, count, 8), generator=torch.Generator().manual_seed(count))
    own = segments(ends, count)
    wanted = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=own[:, None] == own)
    names = [item.name for item in attention.get_inputs()]
    feeds = {name: tensor.numpy() for name, tensor in zip(names, (*parts, ends), strict=True)}
    torch.testing.assert_close(torch.from_numpy(attention.run(None, feeds)[0]), wanted)


class _Rows(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch comes from importorskip.
    def forward(self, patches: Any, sizes: Any) -> Any:
        return find_patch_coordinates(sizes, patches.shape[0], 2).row + patches[:, 0].long()


def test_sizes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the file is run")
    inputs = {"patches": torch.zeros(96, 2), "sizes": torch.tensor([[1, 4, 8], [1, 8, 8]])}
    shapes = {"patches": {0: "patches"}, "sizes": {0: "images"}}
    path = tmp_path / "rows.onnx"
    torch.onnx.export(_Rows().eval(), (), str(path), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {"patches": torch.zeros(24, 2).numpy(), "sizes": torch.tensor([[1, 4, 6]]).numpy()}
    assert session.run(None, feeds)[0].max() == 3
    for rows in (20, 28):
        with pytest.raises(Exception, match="invalid index|out of"):
            session.run(None, {**feeds, "patches": torch.zeros(rows, 2).numpy()})


class _Fill(torch.nn.Module):  # type: ignore[misc,name-defined]
    def get_placeholder_mask(self, input_ids: Any, inputs_embeds: Any, *features: Any) -> Any:
        mask = (input_ids == 7)[..., None].expand_as(inputs_embeds)
        return mask, torch.zeros_like(mask)

    def forward(self, tokens: Any, embeddings: Any, features: Any) -> Any:
        mask, _ = patch_get_placeholder_mask(_Fill.get_placeholder_mask)(self, tokens, embeddings, features)
        return embeddings.masked_scatter(mask, features)


def test_features_that_do_not_fit_the_tokens_are_refused(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the file is run")
    tokens = torch.tensor([[1, 7, 7, 7, 2], [7, 3, 1, 7, 2]])
    inputs = {"tokens": tokens, "embeddings": torch.ones(2, 5, 4), "features": torch.randn(5, 4)}
    shapes = {"tokens": {1: "sequence"}, "embeddings": {1: "sequence"}, "features": {0: "features"}}
    path = tmp_path / "fill.onnx"
    torch.onnx.export(_Fill().eval(), (), str(path), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {name: tensor.numpy() for name, tensor in inputs.items()}
    assert session.run(None, feeds)[0][tokens == 7] == pytest.approx(feeds["features"])
    assert session.run(None, {**feeds, "features": torch.zeros(0, 4).numpy()})[0].min() == 1
    for count in (4, 6):
        with pytest.raises(Exception, match="invalid index|out of"):
            session.run(None, {**feeds, "features": torch.zeros(count, 4).numpy()})


@pytest.mark.parametrize("name", ["qwen2_vl_vision", "qwen2_5_vl_vision"])
def test_attention_is_not_as_large_as_all_patches_squared(name: str) -> None:
    case = find_case(name)
    if not case.exists():
        pytest.skip("this release has no such model")
    tower = case.decoder()
    inputs = tower.inputs(((1, 8, 12), (1, 4, 6)))
    shapes = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in tower.axes.items()}
    with apply_patches(), torch.no_grad():
        program = torch.export.export(tower.model, (), inputs, dynamic_shapes=shapes, strict=False)
    count = next(node.meta["val"].shape[0] for node in program.graph.nodes if node.name == "hidden_states")
    found = {node.name: list(map(str, getattr(node.meta.get("val"), "shape", ()))) for node in program.graph.nodes}
    assert len(found) > 100
    assert [node for node, sizes in found.items() if sizes.count(str(count)) > 1] == []


@pytest.mark.parametrize("name", ["qwen2_vl_vision", "qwen2_5_vl_vision"])
def test_a_file_attends_in_a_loop_alone(name: str) -> None:
    pytest.importorskip("torch", minversion="2.13", reason="older ones have the rows of a batch")
    case = find_case(name)
    if not case.exists():
        pytest.skip("this release has no such model")
    tower = case.decoder()
    inputs = tower.inputs(((1, 8, 12), (1, 4, 6)))
    shapes = {name: dict.fromkeys(axes, torch.export.Dim.DYNAMIC) for name, axes in tower.axes.items()}
    with apply_patches():
        program = torch.onnx.export(tower.model, (), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    softmax = {"Softmax", "Attention"}
    assert softmax & {node.op_type for node in program.model.graph.all_nodes()}
    assert not softmax & {node.op_type for node in program.model.graph}
