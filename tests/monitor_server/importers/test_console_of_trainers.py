"""Console lines of five trainers, made by the formatting calls of their own sources: real loggers and dict printing.

Read in August 2026 at OpenRLHF 3c3be62 (ppo_trainer.py, logging_utils.py), SkyRL a956457 (tracking.py, utils.py), slime
624b824 (model.py, rollout_metrics.py, logging_utils.py), prime-rl 559b447 (train.py, orchestrator.py, logger.py) and
NeMo-RL 7ea279a (grpo.py). The numbers are drawn, so that every width and sign occurs.
"""

import logging
import math
import pprint
import random

import pytest

from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

RAY = "\x1b[36m(entrypoint pid=4711, ip=10.0.0.7)\x1b[0m "


def printed(format_string, message, date_format=None):
    """Return a message as the standard library's logging prints it."""
    record = logging.LogRecord("trainer", logging.INFO, "trainer.py", 547, message, None, None)
    return logging.Formatter(format_string, date_format).format(record)


def open_rlhf(draw, step):
    """A dict after a star, in one line, with Ray's prefix; floats as Python prints them."""
    status = {
        "policy_loss": draw.gauss(0, 1), "actor_lr": 1e-6, "actor_grad_norm": draw.expovariate(1.0),
        "reward": draw.random(), "kl": abs(draw.gauss(0, 1e-5)), "response_length": draw.uniform(50, 5000),
        "timing/make_experience": 12.5, "entropy_loss": draw.random(),
    }  # fmt: skip
    message = f"✨ Global step {step}: {status}"
    line = printed("%(levelname)s %(asctime)s %(filename)s:%(lineno)d] %(message)s", message, "%m-%d %H:%M:%S")
    expected = {"loss/policy": "policy_loss", "grad/norm": "actor_grad_norm", "reward/mean": "reward",
                "kl/ref": "kl", "length/mean": "response_length", "entropy/mean": "entropy_loss"}  # fmt: skip
    return RAY + line + "\n", {signal: status[key] for signal, key in expected.items()}


def skyrl(draw, step):
    """A heading with the step, then a dict over many lines with the floats as texts, each line with Ray's prefix."""
    metrics = {
        "policy/policy_entropy": draw.random(), "policy/raw_grad_norm": 0.5, "policy/final_loss": draw.gauss(0, 1),
        "reward/avg_raw_reward": draw.random(), "loss/avg_final_rewards": -draw.random(), "trainer/global_step": step,
        "generate/avg_num_tokens": draw.uniform(10, 9999), "policy/policy_lr": 1e-6,
        "policy/rollout_train_logprobs_abs_diff_mean": draw.random() / 10,
    }  # fmt: skip
    as_texts = {key: f"{value:.4f}" if isinstance(value, float) else value for key, value in metrics.items()}
    prefix = "\x1b[32m2026-08-21 18:02:38.123\x1b[0m | \x1b[1m\x1b[32mINFO    \x1b[0m | \x1b[36mskyrl.train.utils."
    lines = f"{prefix}tracking\x1b[0m:\x1b[36mlog\x1b[0m:\x1b[36m189\x1b[0m - \x1b[1mStep {step}: \n"
    lines += pprint.pformat(as_texts) + "\x1b[0m"
    expected = {"entropy/mean": "policy/policy_entropy", "reward/mean": "reward/avg_raw_reward",
                "length/mean": "generate/avg_num_tokens",
                "mismatch/logprob_abs": "policy/rollout_train_logprobs_abs_diff_mean"}  # fmt: skip
    found = {signal: float(as_texts[key]) for signal, key in expected.items()}
    return "".join(f"{RAY}{line}\n" for line in lines.splitlines()), found


def slime(draw, step):
    """Dicts in one line, of rollouts and updates apart; a critic's lines and evaluations are not the policy's."""
    rollout = {"rollout/response_len/mean": draw.uniform(10, 9999), "rollout/truncated_ratio": draw.random()}
    batch = {"rollout/raw_reward": draw.random(), "rollout/log_probs": -draw.random()}
    update = {"train/loss": draw.gauss(0, 1), "train/pg_clipfrac": 0.01, "train/grad_norm": draw.expovariate(1.0),
              "train/lr-pg_0": 1e-6, "train/step": step, "train/entropy_loss": draw.random()}  # fmt: skip
    critic = {"train/critic-value_loss": 7.0, "train/critic-grad_norm": 99.0, "train/step": step}
    messages = [
        f"perf {step}: {rollout}", f"rollout {step}: {batch}", f"eval {step}: {({'eval/aime': 0.1})}",
        f"critic-step {step}: {critic}", f"step {step}: {update}", f"perf {step}: {({'perf/train_time': 3.5})}",
    ]  # fmt: skip
    style = "[%(asctime)s TP0] %(filename)s:%(lineno)d - %(message)s"
    expected = {"length/mean": rollout["rollout/response_len/mean"], "reward/mean": batch["rollout/raw_reward"],
                "length/truncated_frac": rollout["rollout/truncated_ratio"],
                "entropy/mean": update["train/entropy_loss"],
                "grad/norm": update["train/grad_norm"], "ratio/clip_frac": 0.01}  # fmt: skip
    return "".join(RAY + printed(style, message) + "\n" for message in messages), expected


def prime_trainer(draw, step):
    """A line of segments after the time and the level, with colours; numbers of micro steps are not the step's."""
    loss, entropy, mismatch, norm = draw.gauss(0, 1), draw.random(), draw.random() / 100, draw.expovariate(1.0)
    time = "12.3s" if step % 2 else "2m 5s"
    begin = "\x1b[2m12:00:01\x1b[0m"
    text = f"{begin} \x1b[34m{'DEBUG': >7}\x1b[0m Micro Step 0/8 | Loss {9.0:.4f} | Entropy {9.0:.4f}\n"
    text += f"{begin} \x1b[32m{'SUCCESS': >7}\x1b[0m \x1b[22mStep {step} | {time:>7} | Loss {loss:.4f} | "
    text += f"Entropy {entropy:.4f} | Mismatch KL {mismatch:.4f} | Grad. Norm {norm:.4f} | LR {1e-6:.2e} | "
    text += f"Throughput {12345:.0f} tokens/s | MFU {31.2:.1f}% | Peak Mem. {70.5:.1f} GiB\x1b[0m\n"
    found = {"loss/policy": loss, "entropy/mean": entropy, "mismatch/kl": mismatch, "grad/norm": norm}
    return text, {signal: float(f"{value:.4f}") for signal, value in found.items()}


def prime_orchestrator(draw, step):
    """The other process of prime-rl prints the reward; shares have a percent sign, and each environment a line."""
    reward, truncated = draw.random(), draw.random()
    head = f"Step {step} | {'12.3s':>7} | Reward {reward:.4f} | Trainable 120/128 (93.8%) | Turns {2.0:.1f} | "
    head += (
        f"Branches {1.0:.1f} | Max Off-Policy 2 | Error {0.0:.1%} | Cancelled {0.0:.1%} | Truncation {truncated:.1%}"
    )
    line = f"╰─ math | Ratio {0.5:.1%} | Reward {9.0:.4f} | Turns {2.0:.1f} | Branches {1.0:.1f} | Truncation {1.0:.1%}"
    text = f"12:00:01 {'SUCCESS': >7} {head}\n\t\t {line}\n"
    shown = float(f"{truncated:.1%}".rstrip("%")) / 100
    return text, {"reward/mean": float(f"{reward:.4f}"), "length/truncated_frac": shown}


def nemo(draw, step):
    """A heading with the step, then a number a line; the timing that follows is not the training's."""
    loss, error, reward, length = draw.gauss(0, 1), draw.random() / 100, draw.random(), draw.uniform(10, 9999)
    rewards = (
        [f"  • Avg Filtered Reward: {9.0:.4f}", f"  • Avg Total Reward: {reward:.4f}"]
        if step % 2
        else [f"  • Avg Reward: {reward:.4f}"]
    )
    lines = [
        f"\n{'=' * 25} Step {step}/100 {'=' * 25}", "▶ Generating responses for batch of size 512...",
        "\n📊 Training Results:", f"  • Loss: {loss:.4f}", f"  • Generation KL Error: {error:.4f}", *rewards,
        f"  • Mean Generation Length: {length:.4f}", "\n⏱️  Timing:", f"  • Total step time: {12.0:.2f}s",
        f"  • policy_training: {6.0:.2f}s ({50.0:.1f}%)", "\n🔍 Performance Metrics:",
    ]  # fmt: skip
    found = {"loss/policy": loss, "mismatch/kl": error, "reward/mean": reward, "length/mean": length}
    return "\n".join(lines) + "\n", {signal: float(f"{value:.4f}") for signal, value in found.items()}


PRINTERS = [open_rlhf, skyrl, slime, prime_trainer, prime_orchestrator, nemo]


@pytest.mark.parametrize("printer", PRINTERS, ids=lambda printer: printer.__name__)
@pytest.mark.parametrize("seed", range(3))
def test_every_step_and_number_that_a_trainer_prints_is_read_back(tmp_path, printer, seed):
    """Each of twelve steps has the numbers that are signals, equal to the printed ones."""
    draw = random.Random(seed)  # noqa: S311 - numbers for a log
    steps = [printer(draw, step) for step in range(1, 13)]
    (tmp_path / "run.log").write_text("".join(text for text, _ in steps))
    (log,) = find_logs([tmp_path / "run.log"])
    read = list(observe(log.read(ReadReport()), NameMapping().signals))
    assert [observation.step for observation in read] == list(range(1, 13))
    for observation, (_, expected) in zip(read, steps, strict=True):
        found = {signal: observation.signals.get(signal, math.nan) for signal in expected}
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ahead", [0, 1, 2, 7])
def test_the_two_processes_of_prime_rl_give_one_row_a_step_in_an_output_that_holds_both(tmp_path, ahead):
    """The orchestrator prints its steps ahead of the trainer's; a resume in the middle begins the second attempt."""
    draw = random.Random(ahead)  # noqa: S311 - numbers for a log
    text, expected = "", []
    for steps in (range(30), range(20, 50)):
        rollouts = {step: prime_orchestrator(draw, step) for step in steps}
        updates = {step: prime_trainer(draw, step) for step in steps}
        for step in range(steps.start, steps.stop + ahead):
            text += rollouts[step][0] if step in rollouts else ""
            text += updates[step - ahead][0] if step - ahead in updates else ""
        expected += [(step, rollouts[step][1] | updates[step][1]) for step in steps]
    (tmp_path / "slurm-1.out").write_text(text)
    (log,) = find_logs([tmp_path / "slurm-1.out"])
    read = list(observe(log.read(ReadReport()), NameMapping().signals))
    assert [(row.attempt, row.step) for row in read] == [
        (1 + (place >= 30), step) for place, (step, _) in enumerate(expected)
    ]
    for row, (_, numbers) in zip(read, expected, strict=True):
        assert {signal: row.signals[signal] for signal in numbers} == pytest.approx(numbers, rel=1e-12)


def test_lines_of_other_processes_between_the_lines_of_a_dict_change_nothing(tmp_path):
    """Ray prints the workers' lines as they come, progress bars and one-line dicts among them."""
    draw = random.Random(9)  # noqa: S311 - numbers for a log
    steps = [skyrl(draw, step) for step in range(1, 5)]
    between = "(worker pid=1) Generating:  50%|#####     | 1/2 [00:01<00:01]\n(worker pid=2) {'rank': 1}\n"
    text = "".join(line + "\n" + between for printed_step, _ in steps for line in printed_step.splitlines())
    (tmp_path / "run.log").write_text(text)
    (log,) = find_logs([tmp_path / "run.log"])
    read = list(observe(log.read(ReadReport()), NameMapping().signals))
    assert [(observation.step, observation.signals["reward/mean"]) for observation in read] == [
        (step, expected["reward/mean"]) for step, (_, expected) in enumerate(steps, 1)
    ]


def test_a_dict_that_is_never_closed_costs_itself(tmp_path):
    """A job that was killed while it printed leaves half a dict; the next attempt's steps are read."""
    draw = random.Random(5)  # noqa: S311 - numbers for a log
    half = skyrl(draw, 7)[0].splitlines()[:4]
    (tmp_path / "run.log").write_text("\n".join(half) + "\nslurmstepd: killed\n" + skyrl(draw, 1)[0])
    (log,) = find_logs([tmp_path / "run.log"])
    assert [observation.step for observation in observe(log.read(ReadReport()), NameMapping().signals)] == [1]
