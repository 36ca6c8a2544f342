"""Losses of subclasses, which score their microbatch in another way than TRL's own or clip something else."""

import pytest
import tiny_trl

from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.trl import VitalsCallback


def test_the_clipped_shares_of_another_loss_are_its_own(tmp_path, connect, steps):
    """GMPO clips logarithms of ratios under the settings of GRPO, and records what it has clipped."""
    gmpo = pytest.importorskip("trl.experimental.gmpo")
    monitor = connect()
    options = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 2e-2}
    trainer = tiny_trl.trainer(
        tmp_path,
        [VitalsCallback(monitor)],
        kind=gmpo.GMPOTrainer,
        config_of=gmpo.GMPOConfig,
        num_iterations=3,
        max_steps=6,
        epsilon=0.4,
        **options,
    )
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    logged = {entry["step"]: entry for entry in trainer.state.log_history if "grad_norm" in entry}
    clipped = {step: signals["ratio/clip_frac"] for step, signals in steps().items() if "ratio/clip_frac" in signals}
    assert set(clipped) == {2, 3, 5, 6}
    assert clipped == {step: pytest.approx(logged[step]["clip_ratio/region_mean"]) for step in clipped}
    assert any(clipped.values())
    assert "ratio/max" in steps()[2]
