"""Calls the callbacks of pages without a browser."""

import asyncio
import json

from dash._callback_context import context_value
from dash._utils import AttributeDict


class Callbacks:
    """Takes the callbacks that pages register, and calls them as Dash does."""

    def __init__(self, url, *pages):
        self._functions = {}
        self.set = {}  # properties of components that the last call has set beside its outputs
        for page in pages:
            page.register(self, url)

    def callback(self, *_args, **_options):
        """Take a callback."""
        return lambda function: self._functions.setdefault(function.__name__, function)

    def clientside_callback(self, *_args, **_options):
        """Leave a function of the browser to the browser."""

    def call(self, name, *values, by=None, **more):
        """Call a callback; `by` is the id of the element that was clicked, if any, and `more` is of Dash's context."""
        prop = json.dumps(by) if isinstance(by, dict) else by
        self.set = {}
        triggered = [{"prop_id": f"{prop}.n_clicks", "value": 1}]
        context = AttributeDict(triggered_inputs=triggered, updated_props=self.set, **more)
        token = context_value.set(context)
        try:
            return asyncio.run(self._functions[name](*values))
        finally:
            context_value.reset(token)
