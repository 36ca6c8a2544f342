import pytest

from trainer_hooks import ConfigurationError
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.wire import AlertNotice


def alert(name="a", *, kind="likelihood_drift", severity="critical"):
    """An alert that fires."""
    return AlertNotice(id=name, kind=kind, severity=severity, opened_step=3, summary="it falls")


def test_a_dry_run_only_says_what_it_would_do(caplog):
    """The default logs and decides nothing."""
    policy = ActionPolicy({"critical": "stop"})
    policy.consider(alert())
    assert policy.due() == []
    assert "would stop, because of critical likelihood_drift, open since step 3: it falls" in caplog.text


def test_the_kind_wins_over_the_severity():
    """A rule for the kind, else one for the severity, else nothing."""
    policy = ActionPolicy({"critical": "stop", "likelihood_stagnation": "checkpoint"}, dry_run=False)
    policy.consider(alert("a", kind="likelihood_stagnation"))
    policy.consider(alert("b"))
    policy.consider(alert("c", severity="warning"))
    assert [decision.action for decision in policy.due()] == ["checkpoint", "stop"]


def test_an_alert_is_acted_on_once_and_again_when_it_grows_worse():
    """The collector repeats what fires; a warning that becomes critical is news."""
    policy = ActionPolicy({"warning": "checkpoint", "critical": "stop"}, dry_run=False)
    policy.consider(alert(severity="warning"))
    policy.consider(alert(severity="warning"))
    assert [decision.action for decision in policy.due()] == ["checkpoint"]
    assert policy.due() == []
    policy.consider(alert(severity="critical"))
    assert [decision.action for decision in policy.due()] == ["stop"]


def test_an_unknown_action_is_refused():
    """The message names what there is."""
    with pytest.raises(ConfigurationError, match="'notify'"):
        ActionPolicy({"critical": "panic"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [("criticals", "critical"), ("likelihood-drift", "likelihood_drift"), ("stagnation", "likelihood_stagnation")],
)
def test_a_rule_that_no_alert_can_meet_is_refused(name, meant):
    """A typing mistake would leave the run unguarded; the message has the nearest names."""
    with pytest.raises(ConfigurationError, match=f"got {name!r}; the nearest are .*{meant!r}"):
        ActionPolicy({name: "stop"})


def test_a_rule_for_what_the_clock_finds_is_refused():
    """A trainer is not told that it was not heard."""
    with pytest.raises(ConfigurationError, match="that detection finds"):
        ActionPolicy({"trainer_lost": "stop"})
