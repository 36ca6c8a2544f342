"""The violations that axe-core finds on a page."""

from axe_playwright_python.base import AXE_SCRIPT

__all__ = ["COLOUR_RULES", "violations"]

# The rules that depend on the theme. All other rules look at the elements, which are the same in both themes.
COLOUR_RULES = ("color-contrast", "link-in-text-block")

FIND = """async (rules) => {
    const runOnly = rules ? {runOnly: {type: 'rule', values: rules}} : {};
    const {violations} = await axe.run({resultTypes: ['violations'], ...runOnly});
    return violations.map((violation) => [violation.id, violation.nodes[0].html]);
}"""


def violations(visit, rules=None):
    """Return the violations of some or all rules of axe-core, each with its first element; a page compiles it once."""
    if not visit.page.evaluate("'axe' in window"):
        visit.page.evaluate(AXE_SCRIPT)
    return visit.page.evaluate(FIND, rules)
