"""What a page points to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TARGETS = sorted(set(re.findall(r"`make ([a-z0-9-]+)`", "\n".join(page.read_text() for page in PAGES))))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_to_a_file(page):
    """A link that is no address names something in the repository."""
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    missing = [link for link in targets if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_command_that_a_page_names_is_in_the_makefile(target):
    """A reader can run the commands on the pages."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
