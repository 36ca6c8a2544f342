"""Draws the fields of the forms of settings: a label, a control of Dash, and a place for the field's problem."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.components.small_elements import number_input
from dashboard.ids.settings import forms as form_ids

__all__ = ["ON_OFF", "Fields"]

ON_OFF: Final = {"on": "on", "off": "off"}


class Fields:
    """Makes the fields of one form.

    Args:
        form: Its name.
        hidden: The names of the fields that are not shown at first.
    """

    def __init__(self, form: str, *, hidden: Collection[str] = ()) -> None:
        self._form = form
        self._hidden = hidden

    def text(self, name: str, label: str, **options: Any) -> Component:  # noqa: ANN401 - of Dash's input
        """Return a line of text."""
        options = {"value": "", "autoComplete": "off", "maxLength": 2000} | options
        control = dcc.Input(id=form_ids.field(self._form, name), **options)
        return self._field(name, html.Label(label, htmlFor=control.id), control)

    def secret(self, name: str, label: str) -> Component:
        """Return a line of text that the browser neither shows nor keeps."""
        return self.text(name, label, type="password", autoComplete="new-password")

    def number(self, name: str, label: str, **options: Any) -> Component:  # noqa: ANN401 - of Dash's input
        """Return a field for any number."""
        control = number_input(form_ids.field(self._form, name), **options)
        return self._field(name, html.Label(label, htmlFor=control.id), control)

    def choice(self, name: str, label: str, choices: Mapping[str, str], value: str | None = None) -> Component:
        """Return a choice of one; the first where no value is given."""
        first = next(iter(choices), None) if value is None else value
        return self._dropdown(name, label, options=dict(choices), value=first, clearable=False)

    def any_of(
        self, name: str, label: str, choices: Mapping[str, str], *, empty: str, is_one: bool = False
    ) -> Component:
        """Return a choice of any number, or of one or none."""
        value: Any = None if is_one else []
        return self._dropdown(name, label, options=dict(choices), value=value, multi=not is_one, placeholder=empty)

    def _dropdown(self, name: str, label: str, **options: Any) -> Component:  # noqa: ANN401 - of Dash's dropdown
        control = dcc.Dropdown(id=form_ids.field(self._form, name), **options)
        return self._field(name, html.Span(label, className="control-label"), control, kind="field control")

    def _field(self, name: str, label: Component, control: Component, kind: str = "field") -> Component:
        problem = html.Div(id=form_ids.problem(self._form, name), className="field-problem", role="status")
        place = form_ids.part(self._form, name)
        return html.Div([label, control, problem], className=kind, id=place, hidden=name in self._hidden)
