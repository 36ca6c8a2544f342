"""The address of a page of the dashboard, as a person gives it: the path of a page with its query, and nothing else.

`dashboard.app.PAGES` serves the same paths; a test compares them.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

__all__ = ["LONGEST_ADDRESS", "PAGE_ADDRESS", "PageAddress", "read_page_address"]

LONGEST_ADDRESS: Final = 4_000  # the same as the query of a saved view
_ID: Final = r"([0-9A-Za-z]{1,64})"  # a path that a browser changes, such as one with dots, does not match
# A browser writes quotation marks, angle brackets and all non-ASCII characters as %.. itself. An address without these
# characters can be quoted in a text of any kind.
_QUERY: Final = r"(\?[!$-;=?-\[\]-~]*)"
PAGE_ADDRESS: Final = rf"^/(((compare|rules|settings)|runs/{_ID}(/responses|/alerts/{_ID})?)/?)?{_QUERY}?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAddress:
    """The objects that a page shows.

    Attributes:
        path: The path, without the query.
        run_ids: The runs that it shows, without repeats; empty if it shows no particular run.
        alert_id: The alert that it shows.
    """

    path: str
    run_ids: tuple[str, ...] = ()
    alert_id: str | None = None


def read_page_address(address: str) -> PageAddress:
    """Return the objects on the page of an address.

    Raises:
        ValueError: If it is not the address of a page.
    """
    found = re.fullmatch(PAGE_ADDRESS, address)
    if found is None:
        raise ValueError(f"the address of a page of the dashboard is needed, got {address[:100]!r}")
    *_, name, run_id, _, alert_id, query = found.groups()
    compared = parse_qs(query[1:]).get("run", []) if name == "compare" and query else []
    for compared_id in compared:
        if re.fullmatch(_ID, compared_id) is None:
            raise ValueError(f"run= must be the id of a run, got {compared_id[:100]!r}")
    run_ids = (run_id,) if run_id else tuple(dict.fromkeys(compared))
    return PageAddress(path=address.partition("?")[0], run_ids=run_ids, alert_id=alert_id)
