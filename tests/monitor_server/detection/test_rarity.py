"""Rules by ranks: a value that a run has often shown is no departure, and a new one needs few rows."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.detectors.entropy_collapse import EntropyCollapse
from monitor_server.detection.detectors.loss_explosion import LossExplosion
from monitor_server.detection.detectors.reward_fall import RewardFall
from monitor_server.detection.detectors.reward_loss import RewardLoss
from monitor_server.detection.detectors.run_collapsed import RunCollapsed
from monitor_server.detection.protocol import Observation
from monitor_server.detection.statistics.rare_loss import RareLoss
from monitor_server.detection.statistics.rarity import rarity


def test_rarity_is_the_power_of_the_share_of_rows_as_extreme():
    """Of 8 rows before, 1 is as low as the milder of the newest two: ((1 + 1) / (8 + 2))² = 0.04."""
    values = [5.0, 5.0, 5.0, 1.0, 5.0, 5.0, 5.0, 5.0, 2.0, 1.5]
    assert rarity(values, falls=True, rows=(2,)) == pytest.approx(0.04)
    # No row is as high as 6: (0 + 1) / (9 + 2)
    assert rarity([*values[:-1], 6.0], falls=False, rows=(1,)) == pytest.approx(1 / 11)


@given(values=st.lists(st.floats(-1e6, 1e6), max_size=60), falls=st.booleans())
def test_rarity_is_a_probability_and_needs_four_rows_before(values, falls):
    """It lies in (0, 1], and is 1 where there is nothing to compare with."""
    found = rarity(values, falls=falls)
    assert 0.0 < found <= 1.0
    assert len(values) > 4 or found == 1.0


@pytest.mark.parametrize("detector", [RewardFall, RewardLoss, RunCollapsed])
def test_a_reward_that_is_often_zero_is_not_lost_when_it_is_zero_again(detector):
    """The reward of a small group is 0 in one row of six, at random: at most one run of twenty is alarmed by chance."""
    alarmed = 0
    for seed in range(20):
        draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
        rewards = [0.0 if draw.random() < 1 / 6 else 3.0 for _ in range(200)]
        alarmed += bool(episodes(detector(), {"reward/mean": rewards}))
    assert alarmed <= 1


@pytest.mark.parametrize("before", [6, 8, 12, 40])
def test_a_short_run_that_dies_is_warned_within_five_rows_and_critical_within_six(before):
    """The reward falls from about 0.9 to 0.1 after a handful of rows, and no other signal is logged."""
    rewards = [0.9 + 0.05 * (-1) ** row for row in range(before)] + [0.1, 0.12, 0.08, 0.1, 0.09, 0.1]
    warned = episodes(RewardLoss(), {"reward/mean": rewards})
    critical = episodes(RunCollapsed(), {"reward/mean": rewards})
    assert warned[0][0] <= before + 4
    assert critical[0][0] <= before + 5


def test_a_collapse_by_the_reward_alone_does_not_say_that_nothing_else_moved():
    """The gradient norm goes from 0.94 to 38 with it; a gradient that grows is no mechanism of this detector."""
    judge = RunCollapsed()
    rows = [{"reward/mean": 1.0 + 0.01 * (row % 5), "grad/norm": 0.94 + 0.01 * (row % 3)} for row in range(120)]
    rows += [{"reward/mean": 0.1, "grad/norm": 38.0}] * 6
    found = [finding for step, row in enumerate(rows) for finding in judge.update(Observation(step=step, signals=row))]
    assert found[0].evidence["agreeing"] == []
    assert found[0].summary.endswith("to 0.1, and no other sign of a collapse agrees yet.")


def test_a_loss_of_two_fifths_that_lasts_is_warned_and_a_dip_of_one_row_is_not():
    """A lasting fall from 0.9 to 0.45 is a partial degradation; one row of 0.45 is noise."""
    before = [0.9, 0.88, 0.92, 0.9] * 8
    assert episodes(RewardLoss(), {"reward/mean": [*before, 0.45, *before]}) == []
    assert episodes(RewardLoss(), {"reward/mean": [*before, *[0.45] * 4]}) == [(34, "reward_fall", "warning")]


def test_a_loss_that_the_divergence_explains_is_not_counted():
    """β times one outlying k3 estimate is no explosion of the loss; the same loss without it is critical."""
    loss, divergence = [0.01] * 10 + [1e6], [0.2] * 10 + [2.5e7]
    assert episodes(LossExplosion(), {"loss/policy": loss, "kl/ref": divergence}) == []
    assert episodes(LossExplosion(), {"loss/policy": loss, "kl/ref": [0.2] * 11}) == [
        (10, "loss_explosion", "critical")
    ]


def test_a_loss_is_judged_in_the_unit_of_the_rewards():
    """Returns of 300 give value losses of their square: 50,000 is ordinary there and explodes where rewards are 1."""
    loss = [40.0] * 10 + [5e4]
    assert episodes(LossExplosion(), {"loss/policy": loss, "reward/mean": [300.0] * 11}) == []
    assert len(episodes(LossExplosion(), {"loss/policy": loss, "reward/mean": [1.0] * 11})) == 1


def test_entropy_that_dies_within_a_hundred_rows_is_warned_and_one_that_learns_is_not():
    """A fall from 0.6 nat by 6 % a row is a collapse, and one by half a percent a row is learning."""
    fast = [0.6 * 0.94**row for row in range(90)]
    slow = [0.6 * 0.995**row for row in range(600)]
    assert [kind for _, kind, _ in episodes(EntropyCollapse(), {"entropy/mean": fast})][:1] == ["entropy_collapse"]
    assert episodes(EntropyCollapse(), {"entropy/mean": slow}) == []


def test_loss_of_reward_is_counted_from_the_floor_of_the_run():
    """Rewards from −3 to 3: a fall from 2.5 to 1.5 keeps four fifths of the way, a fall to −2 a sixth."""
    for low, is_lost in ((1.5, False), (-2.0, True)):
        loss = RareLoss(share=0.6)
        loss.update(-3.0)
        for reward in [2.5, 2.4, 2.6] * 6:
            loss.update(reward)
        assert (min(loss.update(low) for _ in range(4)) < 1e-4) is is_lost
