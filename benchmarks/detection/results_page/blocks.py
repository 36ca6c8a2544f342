"""Writes what a benchmark found into a page of results, one block for each suite."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.detection.results_page.tables import Section, as_markdown
from benchmarks.writing import write_whole
from monitor_server.detection.base_classes.detector import DETECTOR_VERSION

__all__ = ["Picture", "write_blocks"]

_BEGIN, _END = "<!-- suite {} -->", "<!-- end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture of a block.

    Attributes:
        name: What follows the page's name in the name of the file.
        text: What the picture shows, for readers who do not see it.
        svg: The content of the file.
    """

    name: str
    text: str
    svg: str


def write_blocks(
    page: Path,
    command: str,
    sections: Mapping[str, Sequence[Section]],
    *,
    order: Sequence[str],
    pictures: Mapping[str, Sequence[Picture]] | None = None,
) -> None:
    """Write the suites that ran into a page and their pictures beside it, and leave the rest of the page as it stands.

    Args:
        page: The page. The text before its first block is kept; a missing page is created.
        command: The command that found the numbers. Each block ends with it and with the detectors' version.
        sections: The sections of each suite that ran.
        order: The suites of the page in their order. A block that did not run is kept.
        pictures: The pictures of each suite, which stand before its sections.
    """
    before = page.read_text() if page.exists() else ""
    introduction, _, _ = before.partition(_BEGIN.partition("{")[0])
    blocks = {suite: _block(before, suite) for suite in order}
    for suite, found in sections.items():
        images = "".join(_write_picture(page, picture) for picture in (pictures or {}).get(suite, ()))
        source = f"Printed by `{command}` with the detectors `{DETECTOR_VERSION}`."
        blocks[suite] = f"{_BEGIN.format(suite)}\n\n{images}{as_markdown(found)}\n{source}\n\n{_END}\n"
    write_whole(page, introduction + "\n".join(block for block in blocks.values() if block))


def _write_picture(page: Path, picture: Picture) -> str:
    """Write a picture beside its page, and return the Markdown that shows it."""
    image = page.with_name(f"{page.stem}-{picture.name}.svg")
    write_whole(image, picture.svg)
    return f"![{picture.text}]({image.name})\n\n"


def _block(text: str, suite: str) -> str:
    """Return a suite's part of a page, markers included."""
    _, begin, rest = text.partition(_BEGIN.format(suite))
    return begin + rest.partition(_END)[0] + _END + "\n" if begin else ""
