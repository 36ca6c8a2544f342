"""Units and definitions at the charts, from the table of docs/signals.md."""

from dashboard.signal_definitions.lookup import TABLE, define, unit_of
from tools.signal_definitions import PAGE, definitions


def test_the_dashboard_has_the_definitions_of_the_documentation():
    """`python -m tools.signal_definitions` writes them."""
    assert definitions(PAGE.read_text()) == TABLE


def test_a_signal_has_its_definition_and_its_unit():
    """A name that the trainer has chosen has neither."""
    assert define("ratio/max") == "largest w"
    assert define("displacement/cross").startswith("the same, after updates on other responses only: ln")
    units = {name: unit_of(name) for name in ("likelihood/correct", "reward/correct_frac", "length/mean", "ratio/max")}
    assert list(units.values()) == ["nats/token", "share", "tokens", ""]
    assert (define("own/entropy"), unit_of("likelihood/own")) == ("", "")
