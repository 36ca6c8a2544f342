"""Scripts by which a page is hidden and shown."""

HIDDEN = """
window.isUnseen = true;
Object.defineProperty(document, "hidden", { get: () => window.isUnseen });
Object.defineProperty(document, "visibilityState", { get: () => (window.isUnseen ? "hidden" : "visible") });
"""
SHOW = "window.isUnseen = false; document.dispatchEvent(new Event('visibilitychange'))"
