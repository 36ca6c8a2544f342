"""The page for a browser at an address that cannot be served; programs get JSON as before."""

import re

import pytest

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Dest": "document"}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/?run=a%00b", 422, "must not contain NUL (%00)"),
        ("/compare?run=%00", 422, "must not contain NUL (%00)"),
        ("/runs/%00", 422, "must not contain NUL (%00)"),
        ("/runs/a/alerts/%00", 422, "must not contain NUL (%00)"),
        ("/nothing", 404, "Nothing is served at /nothing"),
        ("/runs/a/b/c", 404, "Nothing is served at /runs/a/b/c"),
        ("/%3Cscript%3Ealert(1)%3C/script%3E", 404, "at /&lt;script&gt;alert(1)&lt;/script&gt;"),
    ],
)
def test_a_browser_that_opens_a_bad_address_gets_a_page(collector, path, status, message):
    """The page states the problem, leads back, runs no script, and loads nothing."""
    answer = collector.pool.request("GET", collector.url + path, headers=BROWSER)
    page = answer.data.decode()
    assert (answer.status, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert message in page
    assert '<a href="/">All runs</a>' in page
    assert not re.search(r"<script|src=|url\(", page)
    (policy,) = answer.headers.getlist("content-security-policy")
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize("path", ["/api/v1/runs?text=%00", "/_dash-layout?x=%00", "/api/v1/nothing"])
def test_the_api_answers_every_client_in_the_one_shape(collector, path):
    """A browser gets this shape too, because its pages read it."""
    answer = collector.pool.request("GET", collector.url + path, headers=BROWSER)
    assert set(answer.json()) == {"error", "detail"}


@pytest.mark.parametrize("headers", [{}, {"Accept": "application/json"}, {"Accept": "*/*"}])
def test_a_program_that_asks_for_a_page_gets_json(collector, headers):
    """A client that does not ask for HTML cannot read a page."""
    answer = collector.pool.request("GET", f"{collector.url}/?run=a%00b", headers=headers)
    assert (answer.status, answer.json()["error"], answer.headers["vary"]) == (422, "InvalidField", "accept")
