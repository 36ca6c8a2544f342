"""A view of the dashboard that a person shows on every open page."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema, Time

__all__ = ["ShownView", "ViewEvent"]


class ViewEvent(Schema):
    """A shown view, in the form of the stream."""

    address: str = Field(description="The path of a page, with its query")
    note: str
    by: str
    at: Time = Field(description="Seconds since the epoch")


class ShownView(ViewEvent):
    """A view that was shown; ``url`` is its whole address, for quotation."""

    url: str
    project: str | None = Field(
        description="The project whose keys see the view; null if only keys for every project see it"
    )
