"""``python -m tools.architecture``: list the folders of the three packages, and draw the imports between them.

Writes a table of folders and Mermaid diagrams into docs/architecture.md, each between two marks.
``--check`` writes nothing, and fails if the page is not current; ``make check`` calls it.
"""

import argparse
import ast
from pathlib import Path
from typing import Final

import grimp

PACKAGES: Final = ("trainer_hooks", "monitor_server", "dashboard")
PAGE: Final = Path(__file__).parents[1] / "docs" / "architecture.md"
BEGIN: Final = "<!-- drawn by `make architecture`: do not edit by hand -->\n"
END: Final = "<!-- end of the drawing -->\n"
BEGIN_ROOMS: Final = "<!-- listed by `make architecture` from the docstrings: do not edit by hand -->\n"
END_ROOMS: Final = "<!-- end of the list -->\n"


def room_of(module: str) -> str:
    """Return the folder or file directly below the package that a module belongs to: its first two names."""
    return ".".join(module.split(".")[:2])


def imports_between_rooms() -> set[tuple[str, str]]:
    """Return the pairs of rooms of which the first imports the second, over all modules of the packages."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    pairs = (
        (room_of(module), room_of(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    )
    return {(start, end) for start, end in pairs if start != end}


def diagram(package: str, imports: set[tuple[str, str]]) -> str:
    """Return the Mermaid text of a package: a node a folder or module, an arrow for the imports between two of them.

    Rooms of other packages that it imports are drawn beside it. Arrows that follow from other arrows are left out (the
    transitive reduction), so that the layers can be read. The package's own ``__init__`` is no room.
    """
    arrows = {(start, end) for start, end in imports if start.startswith(f"{package}.") and end not in PACKAGES}
    rooms = {room for arrow in arrows for room in arrow}
    own = sorted(room for room in rooms if room.startswith(f"{package}."))
    lines = ["flowchart TB", f'  subgraph {package}["{package}/"]', *(f"    {_node(room)}" for room in own), "  end"]
    lines += [f"  {_node(room)}" for room in sorted(rooms - set(own))]
    lines += [f"  {_id(start)} --> {_id(end)}" for start, end in sorted(_reduced(arrows))]
    return "\n".join(lines) + "\n"


def _node(room: str) -> str:
    """Write a folder as a box, and a module as a rounded one; a room of another package with its package."""
    path = PAGE.parents[1].joinpath(*room.split("."))
    return f'{_id(room)}["{path.name}/"]' if path.is_dir() else f'{_id(room)}("{path.name}.py")'


def _id(room: str) -> str:
    return room.replace(".", "_")


def _reduced(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Leave out each arrow whose end is reached from its start by a longer way."""
    targets: dict[str, set[str]] = {}
    for start, end in arrows:
        targets.setdefault(start, set()).add(end)

    def is_reached(start: str, end: str) -> bool:
        seen, waiting = {start}, list(targets.get(start, set()) - {end})
        while waiting:
            room = waiting.pop()
            if room == end:
                return True
            if room not in seen:
                seen.add(room)
                waiting += targets.get(room, set())
        return False

    mutual = {(start, end) for start, end in arrows if (end, start) in arrows}
    return {(start, end) for start, end in arrows if (start, end) in mutual or not is_reached(start, end)}


def page_with(text: str, drawn: str, *, begin: str = BEGIN, end: str = END) -> str:
    """Return the text of the page with the drawing, or the list, between its marks.

    Raises:
        ValueError: If the page has no place for it.
    """
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{PAGE.name} must hold the lines {begin.strip()!r} and {end.strip()!r}")
    return f"{before}{begin}{drawn}{end}{after}"


def room_list() -> str:
    """Return a Markdown table of the folders directly in each package: the first sentence of their docstrings."""
    root = PAGE.parents[1]
    lines = ["| folder | content |", "|---|---|"]
    for package in PACKAGES:
        for path in sorted(root.joinpath(package).glob("*/__init__.py")):
            docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
            lines.append(f"| `{package}/{path.parent.name}` | {docstring.split(chr(10))[0].replace('``', '`')} |")
    return "\n".join(lines) + "\n"


def drawing() -> str:
    """Return the diagrams of all packages as Markdown."""
    imports = imports_between_rooms()
    return "\n".join(f"```mermaid\n{diagram(package, imports)}```\n" for package in PACKAGES)


def main() -> int:
    """Draw, or check that the drawing is current."""
    parser = argparse.ArgumentParser(prog="python -m tools.architecture", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the page is not current")
    asked = parser.parse_args()
    text = PAGE.read_text()
    current = page_with(page_with(text, drawing()), room_list(), begin=BEGIN_ROOMS, end=END_ROOMS)
    if not asked.check:
        PAGE.write_text(current)
    elif text != current:
        print(f"{PAGE.name} does not show the folders and imports of the code; run: make architecture")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
