import math
import pickle

import pytest
import tiny_trl
import torch
from transformers import TrainerCallback
from trl import GRPOTrainer

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.torch_loop import LoopWatch
from trainer_hooks.callbacks.transformers import VitalsCallback as PlainCallback
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.model_monitors import ModelMonitors

PARTS = {f"grad/norm/model.layers.{layer}.{part}" for layer in (0, 1) for part in ("self_attn", "mlp")}


def hooks(model):
    """Return the hooks of this package on the model; transformers has other hooks."""
    every = [found for module in model.modules() for found in (module._forward_hooks, module._forward_pre_hooks)]
    return [hook for found in every for hook in found.values() if hook.__module__.startswith("trainer_hooks")]


@pytest.mark.parametrize("callback", [VitalsCallback, PlainCallback], ids=["trl", "transformers"])
def test_a_grpo_run_of_a_mixture_of_experts_is_looked_into(callback, tmp_path, connect, steps):
    """Attention, routers and module norms are measured at the first and every second step, and no hook is left."""
    monitor = connect()
    watching = callback(monitor, model_monitors=ModelMonitors(every=2))
    trainer = tiny_trl.trainer(tmp_path, [watching], model_of=tiny_trl.mixture_of_experts, max_grad_norm=0.01)
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    signals = steps()
    measured = [step for step, found in signals.items() if "qk/spectral_entropy" in found]
    assert measured == [1, 2, 4]
    for step in measured:
        found = signals[step]
        assert 0 < found["moe/load_entropy_min"] <= found["moe/load_entropy"] <= math.log(4)
        assert 0 < found["moe/router_entropy"] <= math.log(4)
        assert 0.25 <= found["moe/top1_share"] <= found["moe/top1_share_max"] <= 1
        assert 0 < found["qk/spectral_entropy_min"] <= found["qk/spectral_entropy"] <= math.log(8)
        parts = [value for name, value in found.items() if name.startswith("grad/norm/")]
        assert found.keys() >= PARTS
        # Before clipping, which leaves 0.01 of the whole; vectors of the norms are in no part.
        total = math.sqrt(sum(value**2 for value in parts))
        assert found["grad/norm"] > 0.02
        assert 0.9 * found["grad/norm"] < total <= found["grad/norm"] * 1.00001
    assert not hooks(trainer.model)
    assert "clip_grad_norm_" not in vars(trainer.accelerator)


@pytest.mark.parametrize(
    "options",
    [{"model_monitors": ModelMonitors(every=1)}, {"probe_every": 1}, {"recompute_every": 1}],
    ids=["model_monitors", "probe", "recomputation"],
)
def test_a_callback_that_measures_can_be_pickled_at_any_moment_and_holds_no_model(options, tmp_path, connect):
    """A script that pickles the callbacks of a trainer pickles this one too, in the middle of a step as well."""
    pickled = []

    class Pickling(TrainerCallback):
        def on_step_begin(self, *_, **__):
            pickled.append(pickle.dumps(watching))

        on_pre_optimizer_step = on_step_end = on_train_end = on_step_begin

    watching = VitalsCallback(connect(), **options)
    trainer = tiny_trl.trainer(tmp_path, [watching, Pickling()], model_of=tiny_trl.mixture_of_experts, max_steps=2)
    trainer.train()
    assert len(pickled) == 7
    assert max(map(len, pickled)) < 4_000
    for state in pickled:
        assert pickle.loads(state).library == "trl"  # noqa: S301 - our own


@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_looking_changes_no_weight_of_a_trainer(clip, tmp_path, connect):
    """The model monitors do not change the final weights in any bit, whether gradients are clipped or not."""
    options = {"model_of": tiny_trl.mixture_of_experts, "num_iterations": 2, "max_grad_norm": clip}
    monitors = ModelMonitors(every=1, attention_update=True)
    watched = tiny_trl.trainer(tmp_path, [VitalsCallback(connect(), model_monitors=monitors)], **options)
    watched.train()
    generator = torch.get_rng_state()
    alone = tiny_trl.trainer(tmp_path, **options)
    alone.train()
    assert tiny_trl.weights(watched) == tiny_trl.weights(alone)
    assert torch.equal(generator, torch.get_rng_state())


def test_hooks_are_gone_when_training_raises(tmp_path, connect):
    """Hooks that an error in a measured step leaves on the model are removed when it trains again."""

    class Dying(GRPOTrainer):
        def _compute_loss(self, model, inputs):
            if self.state.global_step == 1:
                raise RuntimeError("out of memory")
            return super()._compute_loss(model, inputs)

    callback = VitalsCallback(connect(), model_monitors=ModelMonitors(every=1))
    trainer = tiny_trl.trainer(tmp_path, [callback], kind=Dying, model_of=tiny_trl.mixture_of_experts)
    with pytest.raises(RuntimeError, match="out of memory"):
        trainer.train()
    assert hooks(trainer.model)
    Dying._compute_loss = GRPOTrainer._compute_loss
    trainer.train()
    assert not hooks(trainer.model)


def test_a_plain_loop_is_looked_into(tmp_path, connect, steps):
    """`LoopWatch` with `model_monitors` measures the loop's model, and removes its hooks at the end."""
    model = tiny_trl.mixture_of_experts(tmp_path).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.arange(3, 21).view(2, 9)
    with LoopWatch(optimizer, connect(), model_monitors=ModelMonitors(model, every=2)):
        for _ in range(4):
            optimizer.zero_grad()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
    found = steps()
    assert [step for step, signals in found.items() if "moe/load_entropy" in signals] == [1, 2, 4]
    assert found[2].keys() >= PARTS | {"qk/spectral_entropy"}
    assert not hooks(model)


def test_a_loops_monitors_need_its_model(connect):
    """Model monitors without a model raise an error before the first step."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    with pytest.raises(trainer_hooks.ConfigurationError, match="need its model"):
        LoopWatch(optimizer, connect(), model_monitors=ModelMonitors())
