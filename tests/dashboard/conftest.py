"""Fixtures that tests of page elements share."""

from html.parser import HTMLParser

import pytest
from dash.development.base_component import Component


def texts_of(component):
    """Return every text in a component, in order."""
    if isinstance(component, Component):
        written = component.to_plotly_json()["props"].get("data-html")
        return texts_of_html(written) if written else texts_of(getattr(component, "children", None))
    if isinstance(component, list | tuple):
        return [text for child in component for text in texts_of(child)]
    return [component] if isinstance(component, str) else []


def texts_of_html(written):
    """Return every text in a part that is HTML, in order."""
    found = []
    parser = HTMLParser()
    parser.handle_data = found.append
    parser.feed(written)
    parser.close()
    return found


@pytest.fixture
def texts():
    """The function that gives every text in a component, in order."""
    return texts_of


@pytest.fixture
def mounted(start_collector):
    """A collector with its dashboard."""
    return start_collector(dashboard="dashboard.app:attach")
