"""Holds answers to a page back, and opens another page meanwhile."""

# The answers to requests whose body holds `window.heldBack` wait until `window.letGo` is called.
HOLD = """
    const send = window.fetch;
    window.fetch = async (address, options) => {
        const answer = await send(address, options);
        const isHeld = window.heldBack && options?.body?.includes(window.heldBack);
        if (isHeld) await new Promise((resolve) => (window.letGo = resolve));
        return answer;
    };
"""
OPEN = "(address) => window.rlvitals.openAddress(address)"


def hold_back(page, changed):
    """Hold back the answers to the requests that follow a change of this property."""
    page.evaluate("(text) => (window.heldBack = text)", f'"changedPropIds":["{changed}"')


def let_go(page):
    page.evaluate("() => (window.heldBack = null, window.letGo())")
    page.wait_for_function("() => !window.rlvitals.requests.isAsking()")
