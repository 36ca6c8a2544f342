"""Tables and sections, printed as aligned text or written as Markdown from the same cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks.detection.scoring.intervals import clopper_pearson

__all__ = ["Section", "Table", "as_markdown", "as_text", "count_of", "count_true", "interval", "percent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A titled grid of cells."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, an explanation, and tables."""

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = field(default_factory=tuple)


def percent(share: float) -> str:
    """Write a share as a percentage with one decimal."""
    return f"{100.0 * share:.1f} %"


def interval(bounds: tuple[float, float], *, digits: int = 3) -> str:
    """Write an interval."""
    return f"[{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"


def count_of(count: int, total: int) -> str:
    """Write a count, its total, and the exact 95 % interval of the share."""
    return f"{count} of {total} {interval(clopper_pearson(count, total), digits=2)}"


def count_true(flags: Sequence[bool]) -> str:
    """Write how many of some flags are true, as `count_of` does."""
    return count_of(sum(flags), len(flags))


def as_text(sections: Iterable[Section]) -> str:
    """Return the sections as aligned plain text."""
    blocks = []
    for section in sections:
        blocks += [f"{section.title}\n{'=' * len(section.title)}", *section.notes]
        blocks += [f"{table.title}\n{_aligned(table)}" for table in section.tables]
    return "\n\n".join(blocks) + "\n"


def as_markdown(sections: Iterable[Section]) -> str:
    """Return the sections as Markdown."""
    blocks = []
    for section in sections:
        blocks += [f"## {section.title}", *section.notes]
        blocks += [f"**{table.title}**\n\n{_pipes(table)}" for table in section.tables]
    return "\n\n".join(blocks) + "\n"


def _aligned(table: Table) -> str:
    grid = [list(table.header), *map(list, table.rows)]
    widths = [max(len(row[column]) for row in grid) for column in range(len(table.header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in grid
    )


def _pipes(table: Table) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
