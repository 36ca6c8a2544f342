"""Asks a person before something is done that cannot be undone."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, State, ctx, no_update

__all__ = ["register_confirmation"]


def register_confirmation(
    app: Dash,
    *,
    dialog: str,
    chosen: str,
    pressed: Input,
    ask: Callable[[Mapping[str, Any]], Awaitable[tuple[object, ...]]],
    act: Callable[[Any], Awaitable[tuple[object, ...]]],
    answers: Sequence[Output],
    refusals: Sequence[Output] = (),
) -> None:
    """Register the question that follows a press, and the act that follows its confirmation.

    Args:
        app: The app.
        dialog: The id of the ConfirmDialog.
        chosen: The id of the store of the choice: what the act needs to know of the press.
        pressed: The clicks on all buttons.
        ask: Takes the id of the pressed button; returns whether to ask, the question, the choice, and the refusals.
        act: Takes the choice; returns the answers.
        answers: What the act writes to.
        refusals: What the question writes to.
    """
    question = [Output(dialog, "displayed"), Output(dialog, "message"), Output(chosen, "data"), *refusals]

    @functools.wraps(ask)
    async def on_press(clicks: Sequence[int | None]) -> tuple[object, ...]:
        if not any(clicks) or not ctx.triggered_id:  # the buttons were drawn and not clicked
            return (no_update,) * len(question)
        return await ask(ctx.triggered_id)

    @functools.wraps(act)
    async def on_confirmation(confirmed: int | None, choice: object) -> tuple[object, ...]:
        return await act(choice) if confirmed else (no_update,) * len(answers)

    app.callback(*question, pressed, prevent_initial_call=True)(on_press)
    confirmed = Input(dialog, "submit_n_clicks")
    app.callback(*answers, confirmed, State(chosen, "data"), prevent_initial_call=True)(on_confirmation)
