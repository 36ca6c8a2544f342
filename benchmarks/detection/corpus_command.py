"""What the commands that score real logs share: their arguments, and the block of the page that each writes."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.detection.command import BLOCKS
from benchmarks.detection.results_page.blocks import write_blocks
from benchmarks.detection.results_page.tables import Section

__all__ = ["corpus_parser", "write_block"]


def corpus_parser(module: str, description: str | None, *, writes: str = "the table") -> argparse.ArgumentParser:
    """Return a parser of the folders of logs and of the page.

    Args:
        module: The module that is run.
        description: Its docstring.
        writes: What is written to the page.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument(
        "--corpus", type=Path, action="append", required=True, help="folder of labelled logs, repeatable"
    )
    parser.add_argument("--write", type=Path, help=f"also write {writes} to this Markdown file")
    return parser


def write_block(page: Path | None, block: str, section: Section, *, prog: str, given: Sequence[str]) -> None:
    """Write a section and the command that printed it into its block of a page, where one is given."""
    if page is not None:
        write_blocks(page, " ".join([prog, *given]), {block: [section]}, order=BLOCKS)
