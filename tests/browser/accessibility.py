"""What axe-core finds on a page."""

from axe_playwright_python.base import AXE_SCRIPT

__all__ = ["violations"]

FIND = """async () => (await axe.run({resultTypes: ['violations']})).violations.map(
    (violation) => [violation.id, violation.nodes[0].html])"""


def violations(visit):
    """Return the violations that axe-core finds, with the first element of each; a page compiles axe-core once."""
    if not visit.page.evaluate("'axe' in window"):
        visit.page.evaluate(AXE_SCRIPT)
    return visit.page.evaluate(FIND)
