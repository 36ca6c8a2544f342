"""Console logs of each trainer, as they look with progress bars, colours and warnings in between."""

import math

import pytest

from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search import find_logs
from monitor_server.importers.steps import observe

NOISE = (
    "  5%|▌         | 12/240 [00:30<09:30,  2.5s/it]\r  5%|▌         | 13/240 [00:33<09:30,  2.5s/it]\n"
    "\x1b[33mWARNING\x1b[0m 11-23 04:00:00 [cuda.py:123] The reward of step 9 is {not} a dict: 1.0\n"
    "Config: {'learning_rate': 1e-06, 'loss': 'grpo', 'beta': 0.0}\n"
    "------\nPrompt: what is 2 | 3 + 4 = 7 - step: by step\n"
)

# Trainer → how it prints steps 1 and 2, and what these lines hold.
LOGS = {
    "TRL": (
        (
            "{'loss': 0.01, 'grad_norm': 1.5, 'reward': 0.25, 'kl': 0.001, 'epoch': 0.01}\n"
            "{'loss': '0.02', 'grad_norm': 'nan', 'reward': '0.5', 'kl': '0.002', 'epoch': '0.02'}\n"
            "{'eval_loss': 0.4, 'eval_reward': 0.9, 'epoch': 0.02}\n"
            "{'train_runtime': 10.0, 'train_loss': 0.015, 'epoch': 0.02}\n"
        ),
        [{"reward/mean": 0.25, "grad/norm": 1.5}, {"reward/mean": 0.5, "grad/norm": math.nan}],
    ),
    "verl": (
        (
            "\x1b[36m(TaskRunner pid=123)\x1b[0m step:1 - actor/entropy:0.9 - "
            "critic/score/mean:np.float64(0.25) - x:1\n"
            "(TaskRunner pid=123) step:2 - actor/entropy:0.8 - critic/score/mean:inf\n"
        ),
        [{"entropy/mean": 0.9, "reward/mean": 0.25}, {"entropy/mean": 0.8, "reward/mean": math.inf}],
    ),
    "OpenRLHF": (
        (
            "INFO ✨ Global step 1: {'policy_loss': -0.5, 'actor_lr': 1e-06, 'reward': 0.25, 'kl': 0.0}\n"
            "INFO ✨ Global step 2: {'policy_loss': -0.6, 'actor_lr': 1e-06, 'reward': 0.5, 'kl': 0.1}\n"
        ),
        [{"loss/policy": -0.5, "reward/mean": 0.25}, {"loss/policy": -0.6, "reward/mean": 0.5, "kl/ref": 0.1}],
    ),
    "slime": (
        (
            "perf 0: {'rollout/response_len/mean': 100.0, 'rollout/truncated_ratio': 0.1}\n"
            "rollout 0: {'rollout/raw_reward': 0.25, 'rollout/log_probs': -0.4}\n"
            "step 1: {'train/loss': 0.1, 'train/grad_norm': 1.0, 'train/step': 1}\n"
            "rollout 1: {'rollout/raw_reward': 0.5}\n"
            "step 2: {'train/loss': 0.2, 'train/grad_norm': 2.0, 'train/step': 2}\n"
        ),
        [{"length/mean": 100.0, "reward/mean": 0.25, "grad/norm": 1.0}, {"reward/mean": 0.5, "grad/norm": 2.0}],
    ),
    "prime-rl": (
        (
            "12:00:01  DEBUG Micro Step 0/8 | Loss 9.0000 | Entropy 9.0000\n"
            "12:00:01 SUCCESS Step 1 |   12.30s | Loss 0.1000 | Entropy 0.9000 | Mismatch KL 0.0010 | "
            "Grad. Norm 0.5000 | "
            "LR 1.00e-06 | Throughput 1234 tokens/s | MFU 12.0% | Peak Mem. 50.1 GiB\n"
            "12:00:13 SUCCESS Step 2 |   12.30s | Loss 0.2000 | Entropy 0.8000 | Mismatch KL 0.0020 | Grad. Norm nan\n"
        ),
        [{"entropy/mean": 0.9, "mismatch/kl": 0.001, "grad/norm": 0.5}, {"grad/norm": math.nan}],
    ),
    "NeMo-RL": (
        (
            "========================= Step 1/100 =========================\n\n📊 Training Results:\n  • Loss: 0.0100\n"
            "  • Generation KL Error: 0.0020\n  • Avg Reward: 0.2500\n  • Mean Generation Length: 100.0000\n\n"
            "⏱️  Timing:\n  • Total step time: 12.00s\n"
            "========================= Step 2/100 =========================\n\n📊 Training Results:\n  • Loss: nan\n"
            "  • Avg Reward: 0.5000\n"
        ),
        [{"reward/mean": 0.25, "mismatch/kl": 0.002, "length/mean": 100.0}, {"loss/policy": math.nan}],
    ),
    "SkyRL": (
        (
            "step:1 - policy/policy_entropy:0.9 - reward/avg_raw_reward:0.25\n"
            "step:2 - policy/policy_entropy:0.8 - reward/avg_raw_reward:0.5\n"
        ),
        [{"entropy/mean": 0.9, "reward/mean": 0.25}, {"entropy/mean": 0.8, "reward/mean": 0.5}],
    ),
    "a loop of one's own": (
        (
            "[TRAINING] Step: 1 / 100 | Reward: 0.25 | grad_norm = 1.0\n"
            "2026-11-23 04:00:00 step=2 reward=0.5 grad_norm=2e0\n"
        ),
        [{"reward/mean": 0.25, "grad/norm": 1.0}, {"reward/mean": 0.5, "grad/norm": 2.0}],
    ),
    "Stable-Baselines3": (
        (
            "-----------------------\n| rollout/    |       |\n|    ep_rew_mean | 0.25 |\n| time/ | |\n"
            "|    total_timesteps | 1 |\n"
            "-----------------------\n| rollout/    |       |\n|    ep_rew_mean | 0.5 |\n|    total_timesteps | 2 |\n"
            "-----------------------\n"
        ),
        [{"reward/mean": 0.25}, {"reward/mean": 0.5}],
    ),
}


def read(path):
    """Return the steps of the one run in a file."""
    (log,) = find_logs([path])
    assert log.format == "console log"
    return list(observe(log.read(ReadReport()), NameMapping().signals))


@pytest.mark.parametrize("trainer", LOGS)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_trainers_console_log_is_read_among_its_noise(tmp_path, trainer, ends):
    """Progress bars, colours, configurations and samples between the lines add no step and change none."""
    printed, expected = LOGS[trainer]
    text = NOISE + printed.replace("\nINFO", "\n" + NOISE + "INFO") + NOISE
    (tmp_path / "slurm-1.out").write_bytes(text.replace("\n", ends).encode())
    steps = read(tmp_path / "slurm-1.out")
    assert len(steps) == 2
    if trainer != "TRL":  # which prints no step: its rows are counted
        assert [step.step for step in steps] == [1, 2]
    for step, signals in zip(steps, expected, strict=True):
        for name, value in signals.items():
            found = step.signals[name]
            assert found == value or (math.isnan(found) and math.isnan(value))


def test_a_progress_bar_before_a_row_on_its_line_is_passed_over(tmp_path):
    """Carriage returns end a line, and a bar may stand before the dict without one."""
    bars = "".join(f"\r {n}%|█| {n}/100 [00:01<00:02]" for n in range(100))
    (tmp_path / "nohup.out").write_text(
        f"{bars}{{'loss': 0.1, 'reward': 0.5}}\n{bars}\r{{'loss': 0.2, 'reward': 0.6}}\n"
    )
    assert [step.signals["reward/mean"] for step in read(tmp_path / "nohup.out")] == [0.5, 0.6]


@pytest.mark.parametrize("form", ["{{'step': {0}, 'reward': 0.5}}", '{{"global_step": "{0}", "reward": "0.5"}}'])
def test_a_step_within_a_printed_dict_counts(tmp_path, form):
    """The step that a dict names is the step of its row, and not the row's place."""
    log = tmp_path / "out.log"
    log.write_text("loading\n" + "".join(form.format(step) + "\n" for step in (100, 110, 120)))
    (found,) = find_logs([log])
    assert found.format == "console log"
    assert [step.step for step in observe(found.read(ReadReport()), NameMapping().signals)] == [100, 110, 120]


def test_a_log_that_powershell_wrote_is_read(tmp_path):
    """It redirects as UTF-16 with a byte order mark."""
    (tmp_path / "train.log").write_bytes("{'loss': 0.1, 'reward': 0.5, 'epoch': 1}\r\n".encode("utf-16"))
    assert [step.signals["reward/mean"] for step in read(tmp_path / "train.log")] == [0.5]
