"""Fixtures that tests of page elements share."""

import pytest
from dash.development.base_component import Component


def texts_of(component):
    """Return every text in a component, in order."""
    if isinstance(component, Component):
        return texts_of(getattr(component, "children", None))
    if isinstance(component, list | tuple):
        return [text for child in component for text in texts_of(child)]
    return [component] if isinstance(component, str) else []


@pytest.fixture
def texts():
    """The function that gives every text in a component, in order."""
    return texts_of
