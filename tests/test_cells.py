"""Which cells there are, and which of them are chosen."""

import pytest

from exportcompat.matrix.cases._catalogue import CASES
from exportcompat.matrix.versions import _version_axes
from exportcompat.matrix.versions._cells import ANYWHERE, Cell, all_cells, cases_of, choose, default_cells, shard
from exportcompat.matrix.versions._range_ends import boundaries_of, proofs_at_boundaries
from exportcompat.matrix.versions._version_axes import exclusion, last_patches, release
from exportcompat.registry import ExportCompatError

CELLS = [Cell("4.50.3", "2.13.0"), Cell("5.23.0", "2.13.0"), Cell("4.57.6", "2.9.1"), Cell("4.57.6", "2.13.0")]


def test_every_minor_every_torch_and_every_end_is_a_cell() -> None:
    cells = set(all_cells())
    assert {Cell(text, "2.13.0") for text in last_patches("transformers")} <= cells
    assert {Cell(text, torch) for text in ("4.57.6", "5.24.0") for torch in last_patches("torch")} <= cells
    assert {Cell(text, "2.13.0") for text in ("4.53.0", "5.20.1", "4.57.2")} <= cells
    assert {Cell("4.48.3", "2.6.0"), Cell("5.4.0", "2.10.0")} <= cells
    (first, last) = [end for end in boundaries_of("list-cache-length") if end.package == "transformers"]
    assert {
        Cell(text, "2.13.0") for text in (first.inside, str(first.outside), last.inside, str(last.outside))
    } <= cells
    assert len(cells) == len(all_cells())


def test_each_cell_has_cases_of_its_own() -> None:
    def names(*cell: str) -> list[str]:
        return [case.name for case in cases_of(Cell(*cell))]

    assert names("4.57.6", "2.13.0") == list(CASES)
    everywhere = names("5.11.0", "2.13.0")
    assert {"llama", "jamba_eager", "qwen2_5_vl", "bert"} <= set(everywhere) < set(CASES)
    # This cell is there for the end of some ranges alone.
    assert set(names("4.45.1", "2.13.0")) == {ANYWHERE, *proofs_at_boundaries()["4.45.1", "2.13.0"]} < set(everywhere)
    assert all(cases_of(cell) for cell in all_cells())


def test_cells_of_one_torch_are_neighbours_from_old_to_new() -> None:
    torches = [cell.torch for cell in all_cells()]
    assert list(dict.fromkeys(torches)) == [text for text in _version_axes.releases("torch") if text in torches]


def test_the_default_is_old_and_new() -> None:
    cells = default_cells()
    assert len(cells) == 4 and sum(case.telling for case in CASES.values()) == 8
    assert (cells[0], cells[-1]) == (Cell("4.44.2", "2.6.0"), Cell("5.24.0", "2.15.0"))


@pytest.mark.parametrize(
    ("transformers", "torch", "found"),
    [
        (None, None, CELLS),
        ("4.5*", None, [CELLS[0], CELLS[2], CELLS[3]]),
        ("4.5", None, []),
        ("4.57", "2.9", [CELLS[2]]),
        ("4.57.6", "2.13.0", [CELLS[3]]),
        # Two exact releases are a cell that nobody thought of.
        ("5.0.0", "2.7.0", [Cell("5.0.0", "2.7.0")]),
    ],
)
def test_cells_are_chosen_by_release(transformers: str | None, torch: str | None, found: list[Cell]) -> None:
    if found:
        assert choose(CELLS, transformers, torch) == found
    else:
        with pytest.raises(ExportCompatError, match=f"no cell has transformers {transformers}; `--list --all` shows"):
            choose(CELLS, transformers, torch)


def test_a_release_that_is_not_supported_is_no_cell() -> None:
    with pytest.raises(ExportCompatError, match="no cell has transformers 9.9.9, torch 2.13.0"):
        choose(CELLS, "9.9.9", "2.13.0")


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_shards_are_all_cells_once(count: int) -> None:
    parts = [shard(CELLS, f"{number + 1}/{count}") for number in range(count)]
    assert [cell for part in parts for cell in part] == CELLS
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["", "2", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3"])
def test_another_shard_is_refused(text: str) -> None:
    with pytest.raises(ExportCompatError, match="is no shard; write the number of the part and of all parts"):
        shard(CELLS, text)


def test_oldest_and_newest_are_releases() -> None:
    assert (release("torch", "oldest"), release("torch", "newest")) == ("2.6.0", "2.15.0")
    with pytest.raises(ExportCompatError, match="torch 2.5.0 is not among the supported releases, 2.6.0 to 2.15.0"):
        release("torch", "2.5.0")


def test_what_is_not_run_has_a_reason_with_a_link() -> None:
    versions = {"transformers": "4.47.1", "torch": "2.13.0"}
    assert "other chunk sizes" in exclusion("mamba2_eager", versions)
    assert "https://github.com/" in exclusion("mamba2", versions)
    assert exclusion("mamba", versions) == exclusion("mamba2", {**versions, "transformers": "4.48.0"}) == ""
