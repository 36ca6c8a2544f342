"""The ledger of a run's false-alarm budget."""

from pydantic import Field

from monitor_server.api.schemas.base import Schema

__all__ = ["WarrantyItem"]


class WarrantyItem(Schema):
    """A run's warranty, and the part of its false-alarm budget that is spent."""

    is_in_force: bool = Field(
        description="False if there are too few healthy runs; then every page opens, and nothing is promised"
    )
    promise: str = Field(description="The promise in words, or the data that is missing for one")
    steps_per_page: float = Field(
        description="The warranty: number of recorded steps in which at most one false page may open"
    )
    healthy_runs: int
    healthy_steps: int
    longest: int = Field(description="Recorded steps of the longest healthy run")
    steps: int = Field(description="Recorded steps of this run so far")
    is_longer: bool = Field(description="Whether this run is longer than every healthy run; then nothing is promised")
    strength: float = Field(description="Largest strength of a page of this run so far, whether opened or held back")
    pages_allowed: float = Field(description="Largest total of pages that the run may have opened up to now")
    pages_opened: int
    steps_held_back: int = Field(description="Steps at which a page was shown as a warning")
