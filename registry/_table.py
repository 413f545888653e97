"""Rows of text as a table, for a terminal and for a notebook."""

from collections.abc import Iterable, Iterator, Sequence


def text_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield `rows` with their cells, except the last ones, padded to equal widths."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def html_table(rows: Sequence[Sequence[str]], *, title: str, notes: Iterable[str] = ()) -> str:
    """Return `rows` as HTML, the first of them as headings, below a title and above notes.

    Args:
        rows: cells of text; they are escaped.
        title: of the table.
        notes: lines that stand below it.
    """
    # A terminal has no use for it, and its table of characters is large.
    from html import escape

    head, body = rows[0], rows[1:]
    lines = [f"<p><strong>{escape(title)}</strong></p>"]
    if body:
        lines += ["<table>", f"<thead>{_row(head, 'th')}</thead>", "<tbody>"]
        lines += [*(_row(row, "td") for row in body), "</tbody>", "</table>"]
    return "\n".join([*lines, *(f"<p>{escape(note)}</p>" for note in notes)])


def _row(cells: Sequence[str], tag: str) -> str:
    from html import escape

    style = ' style="text-align: left"'
    return f"<tr>{''.join(f'<{tag}{style}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
