"""Tables of positions that eager lengthens: the rows of a graph, within the sample's table and beyond it."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="an export needs torch")
pytest.importorskip("transformers", minversion="4.57", reason="the tables of older releases are not mended")

from torch.export import Dim
from transformers.models.fsmt import modeling_fsmt
from transformers.models.m2m_100 import modeling_m2m_100
from transformers.models.musicgen import modeling_musicgen
from transformers.models.speech_to_text import modeling_speech_to_text
from transformers.models.trocr import modeling_trocr
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer
from transformers.models.xglm import modeling_xglm

from exportcompat import apply_patches

SINES = "SinusoidalPositionalEmbedding"
TABLES = (
    (getattr(modeling_m2m_100, f"M2M100{SINES}"), (10, 8, 1)),
    # An odd number of features ends with a zero.
    (getattr(modeling_speech_to_text, f"Speech2Text{SINES}"), (10, 9, 1)),
    (getattr(modeling_trocr, f"TrOCR{SINES}"), (10, 8, 1)),
    (getattr(modeling_xglm, f"XGLM{SINES}"), (10, 8, 1)),
    (getattr(modeling_musicgen, f"Musicgen{SINES}"), (10, 8)),
    (modeling_fsmt.SinusoidalPositionalEmbedding, (10, 8, 1)),
)


def made(cls: Any, settings: tuple[int, ...]) -> Any:
    table = cls(*settings)
    if hasattr(table, "make_weight"):
        table.make_weight(*settings)
    return table


def tokens(cls: Any, batch: int, length: int) -> Any:
    ids = torch.randint(0, 9, (batch, length), generator=torch.Generator().manual_seed(0))
    return ids[:, None].expand(batch, 2, length).contiguous() if cls.__name__.startswith("Musicgen") else ids


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("cls", "settings"), TABLES, ids=[cls.__name__ for cls, _ in TABLES])
def test_rows_beyond_the_table_are_those_of_eager(cls: Any, settings: tuple[int, ...]) -> None:
    table, sample = made(cls, settings), tokens(cls, 2, 5)
    before = (dict(vars(table)), dict(table._buffers), dict(table._parameters))
    with apply_patches(on_assumption="error"):
        axes = {0: Dim.DYNAMIC, sample.dim() - 1: Dim.DYNAMIC}
        program = torch.export.export(table, (sample,), dynamic_shapes=(axes,), strict=False).module()
    assert (vars(table), dict(table._buffers), dict(table._parameters)) == before
    for batch, length in ((3, 8), (1, 30)):
        given = tokens(cls, batch, length)
        # XGLM of 4.57 adds to the positions that it is given.
        torch.testing.assert_close(program(given.clone()), made(cls, settings)(given.clone()), atol=1e-6, rtol=0)


@pytest.mark.filterwarnings("error::exportcompat.AssumptionWarning")
@pytest.mark.parametrize("kind", ["Rel", "Rotary"])
def test_a_conformer_computes_positions_for_each_length(kind: str) -> None:
    config = modeling_wav2vec2_conformer.Wav2Vec2ConformerConfig(
        hidden_size=16, num_attention_heads=2, max_source_positions=10
    )
    part = getattr(modeling_wav2vec2_conformer, f"Wav2Vec2Conformer{kind}PositionalEmbedding")(config)
    model = torch.nn.Sequential(part)
    sample = torch.zeros(2, 7, 16)
    # What an eager call of the sample's length leaves behind is not taken for the table of every length.
    model(sample)
    before = (dict(vars(part)), dict(part._buffers))
    with apply_patches(on_assumption="error"):
        axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
        program = torch.export.export(model, (sample,), dynamic_shapes=(axes,), strict=False).module()
    assert (vars(part), dict(part._buffers)) == before
    for length in (3, 7, 30):
        given = torch.zeros(3, length, 16)
        torch.testing.assert_close(program(given), type(part)(config)(given), atol=1e-6, rtol=0)
