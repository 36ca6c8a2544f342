"""``python -m tools.skeleton detector|adapter|importer NAME``: write a new one that runs, with its test and its page.

The files are copies of the templates in ``tools/templates/KIND``, whose folders are those of the repository. In their
text ``$name`` is the name in lower case with underscores, ``$Name`` the same in capitals for a class, and ``$words`` in
words.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template

__all__ = ["KINDS", "main", "write"]

ROOT = Path(__file__).parents[1]
TEMPLATES = Path(__file__).with_name("templates")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

# The work that is left to do by hand, by the kind of part.
KINDS = {
    "detector": (
        "read the finished detectors and set `reads`, `size`, `severity` and `what`",
        "add it to DETECTORS in monitor_server/detection/registry.py: the tests of all detectors then run on it",
        "add its kind to ALERT_KINDS in trainer_hooks/wire/kinds.py",
        "add its kind to the part of a training that it points at, in monitor_server/detection/suspects.py",
        "add a remedy with its source, or the kind to NONE_KNOWN, in monitor_server/attribution/remedies.py",
        "fill in docs/detectors/$name.md and add a row to docs/detection.md",
        "measure it: python -m benchmarks.detection",
    ),
    "adapter": (
        "rename the events to those of the trainer, and connect at the first of them",
        "complete NAMES with the trainer's metrics and the canonical names of docs/signals.md",
        "add to the test: the trainer ends in the same weights, to the last bit, with and without the callback",
        "fill in docs/trainers/$name.md, and add an example to examples/",
    ),
    "importer": (
        "change `recognises` and `read` to the format, and put a file that the trainer has written into the test",
        "add it to IMPORTERS in monitor_server/importers/search/known_formats.py, before the formats without a proof",
        "add a row to docs/importers.md",
    ),
}


def write(kind: str, name: str, root: Path = ROOT) -> list[Path]:
    """Write the files of a new part.

    Args:
        kind: One of `KINDS`.
        name: In lower case, words joined by underscores.
        root: The repository.

    Returns:
        The files, relative to ``root``.

    Raises:
        ValueError: If the name is not of this form.
        FileExistsError: If one of the files exists; then nothing is written.
    """
    if NAME.fullmatch(name) is None:
        raise ValueError(f"a name must be lower-case words joined by underscores, such as reward_fall, got {name!r}")
    words = name.replace("_", " ")
    values = {"name": name, "Name": words.title().replace(" ", ""), "words": words, "Words": words.capitalize()}
    folder = TEMPLATES / kind
    files = {
        Path(str(path.relative_to(folder)).replace("NAME", name).removesuffix(".template")): path
        for path in sorted(folder.rglob("*.template"))
    }
    existing = [str(file) for file in files if (root / file).exists()]
    if existing:
        raise FileExistsError(f"a new {kind} must have a name of its own, got {name!r}, which has {existing[0]}")
    for file, template in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(Template(template.read_text(encoding="utf-8")).substitute(values), encoding="utf-8")
    return list(files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, and print what is left to do."""
    parser = argparse.ArgumentParser(prog="python -m tools.skeleton", description="Write a new part of the project.")
    parser.add_argument("kind", choices=[*KINDS])
    parser.add_argument("name", help="lower-case words joined by underscores")
    given = parser.parse_args(arguments)
    try:
        files = write(given.kind, given.name)
    except (ValueError, FileExistsError) as error:
        parser.error(str(error))
    print("written, and its test passes:", *(f"  {file}" for file in files), sep="\n")
    steps = ("make fmt, because where lines are broken depends on the name", *KINDS[given.kind])
    print("left to do:", *(f"  - {Template(step).substitute(name=given.name)}" for step in steps), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
