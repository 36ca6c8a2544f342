"""Chromium's measurements of a page."""

from playwright.sync_api import CDPSession

__all__ = ["held_bytes", "page_metrics"]


def page_metrics(tools: CDPSession) -> dict[str, float]:
    """Return Chromium's measurements of a page."""
    return {held["name"]: held["value"] for held in tools.send("Performance.getMetrics")["metrics"]}


def held_bytes(tools: CDPSession) -> float:
    """Return the bytes that the page's JavaScript holds, without its garbage."""
    for _ in range(2):  # objects that finalisers hold are freed by the second collection
        tools.send("HeapProfiler.collectGarbage")
    return page_metrics(tools)["JSHeapUsedSize"]
