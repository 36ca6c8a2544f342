"""What axe-core finds on a page."""

from axe_playwright_python.sync_playwright import Axe

__all__ = ["violations"]


def violations(visit):
    """Return the violations that axe-core finds, with the first element of each."""
    found = Axe().run(visit.page).response["violations"]
    return [(violation["id"], violation["nodes"][0]["html"]) for violation in found]
