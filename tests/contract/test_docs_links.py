"""Every link of a page leads somewhere, and every page can be found from the README."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TARGETS = sorted(set(re.findall(r"`make ([a-z0-9-]+)`", "\n".join(page.read_text() for page in PAGES))))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_to_a_file(page):
    """A link that is not an address of the web is a path in the repository."""
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in targets if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_a_page_for_developers_names_exists(name):
    """A page names a file by the end of its path, such as `alerts/changes/lifecycle.py`."""
    named = set(re.findall(r"`([\w./]+\.(?:py|js|md))`", (ROOT / name).read_text()))
    folders = ("trainer_hooks", "monitor_server", "dashboard", "tests", "tools", "docs")
    files = [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    assert named
    assert not [each for each in named if not any(file.endswith(f"/{each}") for file in files)]


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_command_that_a_page_names_is_in_the_makefile(target):
    """A reader can run every command that a page shows."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def test_every_page_of_the_documentation_is_found_from_the_readme():
    """Links lead from the README to each page in docs/; a link to a folder leads to the pages in that folder."""
    found, to_read = set(), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in found:
            continue
        found.add(page)
        targets = [(page.parent / link).resolve() for link in LINK.findall(page.read_text()) if "://" not in link]
        for target in targets:
            to_read += sorted(target.glob("*.md")) if target.is_dir() else [target] if target.suffix == ".md" else []
    assert [
        str(page.relative_to(ROOT)) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in found
    ] == []
