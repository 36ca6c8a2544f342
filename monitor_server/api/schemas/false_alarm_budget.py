"""The ledger of a run's budget of false pages."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema

__all__ = ["WarrantyItem"]


class WarrantyItem(Schema):
    """A run's budget of false pages, and the part of it that is spent."""

    is_in_force: bool = Field(description="False: too few healthy runs, so every page opens and nothing is promised")
    promise: str = Field(description="What is promised, or what is missing for it, in words")
    steps_per_page: float = Field(description="Recorded steps in which at most one false page is wanted")
    healthy_runs: int
    healthy_steps: int
    longest: int = Field(description="Recorded steps of the longest healthy run")
    steps: int = Field(description="Recorded steps of this run so far")
    is_longer: bool = Field(description="Whether this run is longer than every healthy run, so that nothing is known")
    strength: float = Field(description="Largest strength of a page so far, opened or held back")
    pages_allowed: float = Field(description="Pages that the run may have opened by now, in all")
    pages_opened: int
    steps_held_back: int = Field(description="Steps at which a page was shown as a warning")
