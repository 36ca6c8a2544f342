"""Every page on answers that fit the description of the API and are otherwise drawn at random."""

import asyncio
import json
import os

import pytest
from fastapi.testclient import TestClient
from plotly.utils import PlotlyJSONEncoder

from dashboard.figures.compared_runs import ALIGNMENTS
from dashboard.pages.alert import alert_page
from dashboard.pages.compare.comparison import ComparisonChoice, read_comparison
from dashboard.pages.compare.page import compare_page
from dashboard.pages.fleet.page import fleet_page
from dashboard.pages.responses import responses_page
from dashboard.pages.rules.page import rules_page
from dashboard.pages.run.page import run_page
from dashboard.pages.settings.page import settings_page
from dashboard.standalone import create_app
from tests.dashboard.random_answers import RandomAnswers, answering_at_random

# The environment variable asks for more.
SEEDS = range(int(os.environ.get("RANDOM_EXAMPLES", "2")))
PAGES = {
    "run": lambda url: run_page(url, "a1"),
    "alert": lambda url: alert_page(url, "a1"),
    "compare": lambda url: compare_page(url, "runs=a1&runs=b1"),
    "fleet": lambda url: fleet_page(url, "http://127.0.0.1"),
    "responses": lambda url: responses_page(url, "a1"),
    "rules": rules_page,
    "settings": settings_page,
}
FIRST_VIEWS = ("/", "/runs/a1", "/runs/a1/alerts/b1", "/runs/a1/responses", "/compare?runs=a1", "/rules", "/settings")


@pytest.fixture(scope="module")
def document(collector):
    """The description of the API."""
    return collector.pool.request("GET", f"{collector.url}/openapi.json").json()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_page_is_drawn_whatever_the_api_answers(document, seed):
    """Numbers that are huge or not finite, texts in any script and long ones, empty lists, names like "NaN"."""
    answers = RandomAnswers(document, seed=seed)
    with answering_at_random(answers) as url:
        for page, draw in PAGES.items():
            assert len(json.dumps(asyncio.run(draw(url)), cls=PlotlyJSONEncoder)) > 0, page
        with TestClient(create_app(api_url=url), base_url="http://127.0.0.1") as browser:
            assert [browser.get(path).status_code for path in FIRST_VIEWS] == [200] * len(FIRST_VIEWS)
    assert answers.asked
    assert all(answers.asked.values()), "the dashboard asks for a path that the API does not describe"


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_are_compared_whatever_the_api_answers(document, seed):
    """On every axis, and as lines of runs or of groups."""
    with answering_at_random(RandomAnswers(document, seed=seed)) as url:
        for align in ALIGNMENTS:
            for is_grouped in (False, True):
                choice = ComparisonChoice(["a1", "b1"], ["reward/mean", "a"], align, is_grouped, is_grouped, 0.5, None)
                comparison = asyncio.run(read_comparison(url, choice))
                assert len(json.dumps(comparison.figures(), cls=PlotlyJSONEncoder)) > 0
