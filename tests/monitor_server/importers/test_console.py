"""Console logs of each trainer, as they look with progress bars, colours and warnings in between."""

import math
import sys

import pytest

from monitor_server.importers.mapping import NameMapping
from monitor_server.importers.protocol import ReadReport
from monitor_server.importers.search.logs import find_logs
from monitor_server.importers.steps import observe

NOISE = (
    "  5%|▌         | 12/240 [00:30<09:30,  2.5s/it]\r  5%|▌         | 13/240 [00:33<09:30,  2.5s/it]\n"
    "\x1b[33mWARNING\x1b[0m 11-23 04:00:00 [cuda.py:123] The reward of step 9 is {not} a dict: 1.0\n"
    "Config: {'learning_rate': 1e-06, 'loss': 'grpo', 'beta': 0.0}\n"
    "------\nPrompt: what is 2 | 3 + 4 = 7 - step: by step\n"
)

# Trainer → its lines for steps 1 and 2, and the values of these lines.
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


def test_a_step_that_follows_a_progress_bar_on_its_line_is_read(tmp_path):
    """The bar goes to standard error without a line end, and verl's line to standard output."""
    (tmp_path / "x.out").write_text(
        "\rTraining Progress:   1%|▏  | 1/100 [01:21<2:14:00, 81.49s/it]step:1 - actor/entropy:0.9\n"
        "(TaskRunner pid=1) timing_s/step:7 - x:1\nstep:2 - actor/entropy:0.8 - timing_s/step:9\n"
    )
    assert [(step.step, step.signals) for step in read(tmp_path / "x.out")] == [
        (1, {"entropy/mean": 0.9}),
        (2, {"entropy/mean": 0.8}),
    ]


def bar(done, total=200):
    """Return how transformers draws its progress bar into a file."""
    return f"\r {100 * done // total:2}%|{'█' * (done % 10):10}| {done}/{total} [00:18<11:16,  3.47s/it]"


def row(reward):
    """Return the line that TRL prints for a logged step."""
    return f"{{'loss': 0.1, 'reward': {reward}, 'epoch': 0.01}}\n"


def test_a_row_without_a_step_has_the_step_of_the_progress_bar_before_it(tmp_path):
    """TRL prints no step, and a logging interval of 5 makes the row's place five times too small."""
    text = "\rMap: 100%|██████████| 7473/7473 [00:00<00:00, 44985.22 examples/s]\n"
    for step in range(1, 31):
        text += bar(step)
        if step % 5 == 0:
            text += f"\rProcessed prompts: 100%|██| 16/16 [00:01<00:00, 9.1it/s]\n{bar(3, 8)}\n{bar(step)}"
            text += " " * 40 + "\r" + row(step / 100) + bar(step)
    (tmp_path / "slurm-1.out").write_text(text)
    steps = read(tmp_path / "slurm-1.out")
    assert [step.step for step in steps] == [5, 10, 15, 20, 25, 30]
    assert [step.signals["reward/mean"] for step in steps] == [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]


def test_bars_that_a_terminal_put_on_one_line_give_the_newest_count(tmp_path):
    """A copy from a terminal holds spaces where the file would hold carriage returns."""
    (tmp_path / "x.log").write_text(
        bar(9).strip() + " " * 30 + bar(10).strip() + row(0.5) + bar(20).strip() + "\n" + row(0.6)
    )
    assert [step.step for step in read(tmp_path / "x.log")] == [10, 20]


def test_rows_that_were_written_late_share_the_steps_between_two_readings(tmp_path):
    """Buffered output writes many rows after one reading of the bar."""
    burst = "".join(row(number / 10) for number in range(4))
    (tmp_path / "x.log").write_text(bar(0) + bar(20) + burst + bar(40) + burst)
    assert [step.step for step in read(tmp_path / "x.log")] == [5, 10, 15, 20, 25, 30, 35, 40]


def test_numbers_that_are_printed_apart_at_one_reading_are_one_step(tmp_path):
    """A trainer's row and a line of the user's own belong together; a second row of the same keys does not."""
    own = "{'kl': 0.25, 'epoch': 0.01}\n"
    (tmp_path / "x.log").write_text(bar(1) + row(0.5) + own + bar(2) + row(0.6) + own + bar(9) + row(0.7) + row(0.8))
    steps = read(tmp_path / "x.log")
    assert [step.step for step in steps] == [1, 2, 5, 9]
    assert steps[1].signals == {"loss/policy": 0.1, "reward/mean": 0.6, "kl/ref": 0.25}


def test_a_bar_that_begins_again_is_a_restart(tmp_path):
    """The training that was resumed in the same file is a new attempt; one with another total goes on."""
    first = bar(10) + row(0.1) + bar(20) + row(0.2)
    (tmp_path / "x.log").write_text(first + bar(15) + row(0.3) + bar(1, 50) + row(0.4))
    assert [(step.attempt, step.step) for step in read(tmp_path / "x.log")] == [(1, 10), (1, 20), (2, 7), (2, 15)]


def test_rows_before_the_first_bar_and_all_after_them_are_counted(tmp_path):
    """A log that is followed may end before the bar, and its rows must be the same ones afterwards."""
    parts = "{'loss': 0.1}\n{'reward': 0.2}\n"
    for text in (parts, parts + bar(20) + row(0.3) + bar(40) + row(0.4)):
        (tmp_path / "x.log").write_text(text)
        steps = [step.step for step in read(tmp_path / "x.log")]
        assert steps == list(range(len(steps)))
    assert len(steps) == 4


def test_a_line_that_wandb_cut_is_named_and_its_last_number_is_not_read(tmp_path):
    """A number that is cut is another one, and those after it are missing without a word."""
    line = f"step:{{}} - critic/score/mean:0.5 - a:{'1' * 4040} - actor/kl_loss:1.5e-07\n"
    cut = line.format(10)[:4096]
    assert cut.endswith("kl_loss:1.5")
    (tmp_path / "output.log").write_text(f"step:9 - critic/score/mean:0.4\n{cut}\n")
    (log,) = find_logs([tmp_path / "output.log"])
    report = ReadReport()
    steps = list(observe(log.read(report), NameMapping().signals, report))
    assert [(step.step, step.signals) for step in steps] == [(9, {"reward/mean": 0.4}), (10, {"reward/mean": 0.5})]
    assert report.problems == [
        "output.log, line 2: it ends at 4,096 bytes, where W&B cuts a line; the run file (.wandb) has the rest"
    ]


def test_numbers_in_the_table_of_completions_of_trl_are_no_rows(tmp_path):
    """A completion with a step became a step, and each of them began a new attempt."""
    table = (
        "╭──────────────── Step {} ───────────────╮\n"
        "│ ┃ Prompt                ┃ Completion             ┃ Advantage ┃ │\n"
        "\x1b[2m│\x1b[0m │ step: 3 reward: 0.7   │ {{'step': 9, 'reward': 5}} │      0.32 │ │\n"
        '│ │ {{"reward":             │ {{                       │      0.32 │ │\n'
        "╰────────────────────────────────────────╯\n"
    )
    text = "".join(f"{bar(step)}\r{row(step / 10)}{bar(step)}{table.format(step)}" for step in (1, 2, 3))
    (tmp_path / "x.log").write_text(text)
    assert [(step.step, step.attempt) for step in read(tmp_path / "x.log")] == [(1, 1), (2, 1), (3, 1)]


def test_a_configuration_with_a_number_of_steps_is_no_row(tmp_path):
    """A learning rate alone is set and not measured."""
    (tmp_path / "x.log").write_text(
        "Steps: 300  |  LR: 2e-06  |  Beta: 0.1\nstep 1 | lr 2e-06 | loss 0.5\nstep=2 lr=2e-06\n"
    )
    assert [(step.step, step.signals) for step in read(tmp_path / "x.log")] == [(1, {"lr": 2e-06, "loss/policy": 0.5})]


@pytest.mark.parametrize("name", ["config:", "Config: DictConfig(", "INFO args =", "hyperparameters:"])
def test_a_printed_configuration_is_no_row(tmp_path, name):
    """Its limits were the first step, far from all others."""
    config = f"{name} {{'actor': {{'clip_ratio': 0.2, 'optim': {{'lr': 1e-06}}}}, 'response_length': 8096}}\n"
    (tmp_path / "x.log").write_text(config + row(0.5) + config + row(0.6))
    assert [step.signals.keys() for step in read(tmp_path / "x.log")] == [{"reward/mean", "loss/policy"}] * 2


@pytest.mark.parametrize("before", ["3 train args: ", "INFO:train_config:"])
def test_measured_numbers_are_a_row_whatever_the_name_before_them(tmp_path, before):
    """A logger may be named like a configuration, and its log had no step."""
    (tmp_path / "x.log").write_text(f"{before}{{'reward': 0.5, 'kl': 0.1}}\n{before}{{'reward': 0.6, 'kl': 0.1}}\n")
    assert [step.signals["reward/mean"] for step in read(tmp_path / "x.log")] == [0.5, 0.6]


def test_numbers_that_wandb_refused_count_where_there_are_no_others(tmp_path):
    """W&B repeats rows with a step that has passed; beside the trainer's own lines they would count twice."""
    refused = (
        "wandb: WARNING (User provided step: {} is less than current step: 999. Dropping entry: "
        "{{'loss': 0.1, 'reward': {}}}).\n"
    )
    (tmp_path / "alone.log").write_text("begin\n" + refused.format(532, 0.5) + refused.format(540, 0.6))
    assert [(step.step, step.signals["reward/mean"]) for step in read(tmp_path / "alone.log")] == [
        (532, 0.5),
        (540, 0.6),
    ]
    (tmp_path / "both.log").write_text(row(0.5) + refused.format(532, 0.5) + row(0.6) + refused.format(540, 0.6))
    assert [step.signals["reward/mean"] for step in read(tmp_path / "both.log")] == [0.5, 0.6]


@pytest.mark.parametrize(
    "line",
    [
        "step=7 best reward=0.9 reward=0.5 target kl=9 kl=0.25",
        "Step 7 | Best Reward 0.9 | Reward 0.5 | KL 0.25",
        '12:00 INFO {"step": 7, "eval": {"reward": 0.9, "kl": 9}, "train": {"reward": 0.5, "kl": 0.25}}',
        "{'step': 7, 'val_metrics': {'a': {'kl': 9}, 'reward': 0.9}, 'reward': 0.5, 'kl': 0.25}",
        "step=7 baseline reward=0.9 reward=0.5 ema kl=9 kl=0.25",
        "step=7 format reward=0.9 accuracy reward=0.2 mean reward=0.5 kl=0.25 approx loss=1 smooth loss=2",
        '12:00 INFO {"step": 7, "critic": {"reward": 0.9}, "policy": {"reward": 0.5, "kl": 0.25}}',
        "{'step': 7, 'format': {'reward': 0.9}, 'reward': 0.5, 'kl': 0.25}",
    ],
)
def test_a_number_that_only_resembles_a_signal_of_the_training_is_passed_over(tmp_path, line):
    """Those of the critic, the evaluation or one of many rewards come first, and the first value would count."""
    (tmp_path / "out.log").write_text(line + "\n")
    (step,) = read(tmp_path / "out.log")
    assert (step.step, step.signals) == (7, {"reward/mean": 0.5, "kl/ref": 0.25})


@pytest.mark.parametrize(
    "line",
    [
        "step=7 value loss=3.2 policy loss=0.1 critic grad_norm=9.0 actor grad_norm=1.5 kl loss=0.25",
        "[step 7] loss=0.1, grad norm=1.5 kl=0.25",
        "12:00 INFO [Step 7/100] loss: 0.1 kl: 0.25 grad_norm: 1.5",
        "Iteration 7: loss=0.1 - grad norm=1.5 - kl=0.25",
        "Step 7 (epoch 1): loss 0.1, grad norm 1.5, kl 0.25",
        "{'step': 7, 'critic': {'loss': 3.2}, 'actor': {'loss': 0.1, 'grad_norm': 1.5}, 'logs': {'kl': 0.25}}",
    ],
)
def test_a_word_or_section_before_a_name_belongs_to_it_if_both_name_a_signal(tmp_path, line):
    """Another word may be one of a sentence, and the number after the name counts."""
    (tmp_path / "out.log").write_text(line + "\n")
    (step,) = read(tmp_path / "out.log")
    assert (step.step, step.signals) == (7, {"loss/policy": 0.1, "grad/norm": 1.5, "kl/ref": 0.25})


def test_a_line_is_searched_for_an_evaluation_once(tmp_path):
    """Before each of its numbers, a line of 64 KiB took 11 seconds."""
    searched = 0

    def count(_frame, event, function):
        nonlocal searched
        searched += event == "c_call" and getattr(function, "__name__", "") == "search"

    (tmp_path / "out.log").write_text(f"Step 3: value=1{' x=1' * 1000} reward=0.5\n")
    (log,) = find_logs([tmp_path / "out.log"])
    sys.setprofile(count)
    try:
        rows = list(log.read(ReadReport()))
    finally:
        sys.setprofile(None)
    assert [row["reward"] for row in rows] == ["0.5"]
    assert searched < 20


@pytest.mark.parametrize(
    "line",
    [
        "[eval] step=7 reward=0.9",
        "Evaluation at step 7: reward=0.9, kl=9",
        "Eval | step: 7 | reward: 0.9",
        "Validating step 7: {'reward': 0.9}",
    ],
)
def test_a_line_of_an_evaluation_is_no_step(tmp_path, line):
    """Its numbers would be those of the training at this step."""
    (tmp_path / "out.log").write_text(line + "\nstep=7 reward=0.5\n")
    (step,) = read(tmp_path / "out.log")
    assert step.signals == {"reward/mean": 0.5}


@pytest.mark.parametrize(
    ("line", "length"),
    [
        ("step=7 reward=0.5 completion_length=1,234", 1234.0),
        ("step=7, reward=0.5, completion_length=1,234,567.5, kl=0,5", 1234567.5),
        ("Step 7 | Reward 0.5 | Completion Length 1,234.5 tokens", 1234.5),
        ("Step 7, Reward 0.5, Completion Length 1,234, Loss 0,5", 1234.0),
        ("step=7 reward=0.5 completion_length=1,23", None),
        ("step=7 reward=0.5 completion_length=0,5", None),
    ],
)
def test_a_comma_within_a_number_separates_thousands_or_the_number_is_not_read(tmp_path, line, length):
    """Read up to the comma, a length would be a thousandth, and a share 0."""
    (tmp_path / "out.log").write_text(line + "\n")
    (step,) = read(tmp_path / "out.log")
    expected = {"reward/mean": 0.5} | ({} if length is None else {"length/mean": length})
    assert (step.step, step.signals) == (7, expected)


@pytest.mark.parametrize(
    ("line", "signals"),
    [
        ("step 7 | reward 0.5 | kl 0.25 | per_task={'math': 0.2, 'code': 0.8}", {}),
        ("step: 7, reward: 0.5, kl: 0.25, config: {'lr': 1e-6}", {}),
        ("step=7 reward=0.5 kl=0.25 stats={'reward': 0.9, 'entropy': 1.5}", {"entropy/mean": 1.5}),
        ("step=7 reward=0.5 kl=0.25 best={'entropy': 1.5}", {}),
        ("[STEP] step=7 reward=0.5 kl=0.25 cmd='{\"id\": \"x\", \"entropy\": 3}' split={'mode': 'test'}", {}),
        ("step=7 info={'a': 1} reward=0.5 kl=0.25", {}),
        ("step:7 - critic/score/mean:0.5 - tools:{'a': 1} - actor/kl_loss:0.25", {}),
    ],
)
def test_a_dict_in_a_line_with_a_step_adds_to_its_numbers(tmp_path, line, signals):
    """It replaced the line: its step and all its numbers were lost."""
    (tmp_path / "out.log").write_text(line + "\n")
    (step,) = read(tmp_path / "out.log")
    assert (step.step, step.signals) == (7, {"reward/mean": 0.5, "kl/ref": 0.25} | signals)


@pytest.mark.parametrize("place", [0, 25])
def test_bytes_of_a_power_cut_cost_nothing_else(tmp_path, place):
    """A truncation of a file that a process writes leaves such bytes, too; the whole log was refused."""
    text = b"step=1 reward=0.5\nstep=2 reward=0.5\nstep=3 reward=0.5\n"
    (tmp_path / "x.log").write_bytes(text[:place] + b"\x00" * 50 + text[place:])
    assert [(step.step, step.signals) for step in read(tmp_path / "x.log")] == [
        (step, {"reward/mean": 0.5}) for step in (1, 2, 3)
    ]


def test_numbers_that_lead_up_to_a_dict_belong_to_its_row(tmp_path):
    """Without a step in the line, they were not even among the unknown keys that --map can name."""
    line = "04:00 - train - INFO - rl_loss: -0.1, best entropy: 9, token_entropy: 0.8, stats: {'n': 8, 'reward': 0.5}\n"
    (tmp_path / "out.log").write_text(line)
    (log,) = find_logs([tmp_path / "out.log"])
    mapping = NameMapping({"entropy/mean": "token_entropy"})
    (step,) = observe(log.read(ReadReport()), mapping.signals)
    assert step.signals == {"reward/mean": 0.5, "entropy/mean": 0.8}


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1 | Step {0} | Loss: 0.9 | {{'policy_loss': 0.25, 'reward': 0.5, 'step': {1}}}",
        "  5%|█ | {0}/100 [00:30<09:30, step={0}, reward=0.1]{{'loss': 0.25, 'reward': 0.5, 'step': {1}}}",
        "iter: 1, metrics: {{'reward': 0.5, 'policy_loss': 0.25, 'epoch': {0}, 'step': {1}}}",
    ],
)
def test_a_dict_with_a_step_of_its_own_is_read_by_itself(tmp_path, line):
    """The numbers before it count something else, or are those of the step before in a progress bar."""
    (tmp_path / "out.log").write_text("".join(line.format(place, 8 * place) + "\n" for place in (1, 2, 3)))
    steps = read(tmp_path / "out.log")
    assert [(step.step, step.signals) for step in steps] == [
        (8 * place, {"reward/mean": 0.5, "loss/policy": 0.25}) for place in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("line", "first"), [("1%|█ | {}/9 [00:30<09:30, step=7, reward=0.1]", 1), ("iter: 7, metrics: ", 0)]
)
def test_a_number_of_a_bar_or_before_a_dict_is_not_its_step(tmp_path, line, first):
    """All rows were one step."""
    (tmp_path / "out.log").write_text("".join(line.format(n) + "{'reward': 0.5}\n" for n in (1, 2, 3)))
    steps = read(tmp_path / "out.log")
    assert [(step.step, step.signals) for step in steps] == [(first + n, {"reward/mean": 0.5}) for n in range(3)]


@pytest.mark.parametrize("spelling", ["Inf", "INF", "inf", "Infinity", "infinity"])
def test_infinity_and_nan_may_be_spelled_in_capitals(tmp_path, spelling):
    """C and R print them so; a missing value would be called not logged."""
    (tmp_path / "out.log").write_text(f"step=7 reward=0.5 loss={spelling} grad_norm=-NAN info=0\n")
    (step,) = read(tmp_path / "out.log")
    assert step.signals["loss/policy"] == math.inf
    assert math.isnan(step.signals["grad/norm"])


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 1, Step 5: reward=0.5 entropy=0.4 loss=25% best reward=0.9",
        "Step 5/100: reward: 0.5 entropy: 0.4 loss: 0.25",
        "step 5 | reward 0.5 entropy=0.4 loss: 0.25 (target entropy: 0.9)",
        "step 5 | validation accuracy 0.4 reward=0.9 entropy: 0.9 | reward 0.5 entropy=0.4 loss: 0.25 eval: kl=0.1",
    ],
)
def test_numbers_with_blanks_alone_between_them_are_all_read(tmp_path, line):
    """Those of an evaluation in the same line are not numbers of the step."""
    (tmp_path / "run.log").write_text(line + "\n")
    (log,) = find_logs([tmp_path / "run.log"])
    (step,) = observe(log.read(ReadReport()), NameMapping().signals)
    assert (step.step, step.signals) == (5, {"reward/mean": 0.5, "entropy/mean": 0.4, "loss/policy": 0.25})


@pytest.mark.parametrize(
    "line",
    [
        "Step {0:,} | Reward 0.5 | Entropy 1.0",
        "Step {0:,}/3,000, Reward 0.5, Entropy 1.0",
        "Step {0:_}/3_000 | Reward 0.5 | Entropy 1.0",
        "step: {0:,} reward: 0.5 entropy: 1.0",
        "step={0:_},reward=0.5,entropy=1.0",
        "step {0:,}: {{'reward': 0.5, 'entropy': 1.0}}",
        "{{'step': '{0:,}', 'reward': 0.5, 'entropy': 1.0}}",
    ],
)
def test_a_step_whose_thousands_are_separated_is_read(tmp_path, line):
    """From step 1,000 on it was step 1, or the line was no step."""
    (tmp_path / "x.log").write_text("".join(f"{line.format(step)}\n" for step in (900, 1000, 1_200_300)))
    steps = read(tmp_path / "x.log")
    assert [(step.step, step.attempt) for step in steps] == [(step, 1) for step in (900, 1000, 1_200_300)]
    assert all(step.signals == {"reward/mean": 0.5, "entropy/mean": 1.0} for step in steps)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step=1,250 tokens, reward=0.5", 1),
        ("step: 1,250 tokens, reward: 0.5", 1),
        ("Step 1,250,300 tokens | Reward 0.5", 1250),
        ("step=1,250 samples=8 reward=0.5", 1250),
        ("step=1,250 done, reward=0.5", 1250),
    ],
)
def test_a_count_of_tokens_after_a_step_is_no_part_of_it(tmp_path, line, step):
    """The name of the next number and a word that counts nothing may follow a step."""
    (tmp_path / "x.log").write_text(f"{line}\n" * 2)
    assert [(found.step, found.signals) for found in read(tmp_path / "x.log")] == [(step, {"reward/mean": 0.5})]


def test_steps_that_are_counted_in_each_epoch_go_on_over_the_epochs(tmp_path):
    """MiniMind prints no word like step, and its logs were refused."""
    line = "Epoch:[{}/2]({}/3), Reward: {}, KL_ref: 0.0002, Adv Std: 0.9, Actor Loss: 0.1, Learning Rate: 0.0000003\n"
    (tmp_path / "grpo.log").write_text("".join(line.format(e, n, n / 10) for e in (1, 2) for n in (1, 2, 3)))
    steps = read(tmp_path / "grpo.log")
    assert [(step.step, step.attempt) for step in steps] == [(step, 1) for step in range(1, 7)]
    assert steps[3].signals == {"reward/mean": 0.1, "kl/ref": 0.0002, "lr": 3e-07}


@pytest.mark.parametrize(
    ("epochs", "expected"), [((1, 2, 3), [1, 2, 3]), ((1, 1, 2), [0, 1, 2])], ids=["one row each", "many rows"]
)
def test_an_epoch_with_a_reward_is_a_step_where_there_are_no_steps(tmp_path, epochs, expected):
    """Of many rows in an epoch, all but the first would be left out: these are counted."""
    line = "  \x1b[1mEpoch   {}\x1b[0m | loss=0.0144 | reward=  6.06 [ok] | val reward=9\n"
    (tmp_path / "x.log").write_text(
        "Epoch 0 | loss=0.5\nEpoch 1: 9it [00:04, 2.00it/s, reward=6]\n"
        + "".join(line.format(epoch) for epoch in epochs)
    )
    steps = read(tmp_path / "x.log")
    assert [step.step for step in steps] == expected
    assert all(step.signals == {"reward/mean": 6.06, "loss/policy": 0.0144} for step in steps)
    (tmp_path / "x.log").write_text("step 5 | reward 0.5\n" + line.format(9))
    assert [step.step for step in read(tmp_path / "x.log")] == [5]


@pytest.mark.parametrize(
    "line",
    [
        "2026-12-01 10:00:00.1 | INFO | trainer:train_step:187 - step={} reward=0.5 entropy=1.0",
        "trainer:step:187 - done, Step {} | reward 0.5 | entropy 1.0",
        "[trainer.py train_step:187] step={} reward=0.5 entropy=1.0",
        "INFO train_step:187: Step {}: reward 0.5, entropy 1.0",
    ],
)
def test_the_place_of_a_call_in_the_prefix_of_a_logger_is_no_step(tmp_path, line):
    """All rows would have one step, and all but the first be lost."""
    (tmp_path / "x.log").write_text("".join(f"{line.format(step)}\n" for step in (3, 4)))
    steps = read(tmp_path / "x.log")
    assert [(step.step, step.signals) for step in steps] == [
        (n, {"reward/mean": 0.5, "entropy/mean": 1.0}) for n in (3, 4)
    ]


@pytest.mark.parametrize(
    "line", ["train_step:{} - reward 0.5", "[train_step:{}] reward=0.5", "run:train_step:{}: reward 0.5"]
)
def test_a_step_in_the_form_of_a_prefix_is_one_where_the_line_has_no_other(tmp_path, line):
    """Loops print it so."""
    (tmp_path / "x.log").write_text("".join(f"{line.format(step)}\n" for step in (3, 4)))
    assert [step.step for step in read(tmp_path / "x.log")] == [3, 4]


@pytest.mark.parametrize(
    "line",
    [
        "step={} metrics={{'reward': 0.5, 'kl': 0.1}}",
        "Step {} metrics: {{'reward': 0.5, 'kl': 0.1}}",
        "[step {}] train metrics: {{'reward': 0.5, 'kl': 0.1}}",
        "step={}, time=2.0s, metrics={{'reward': 0.5, 'kl': 0.1}}",
        "trainer:step:187 - Step {}/500 metrics = {{'reward': 0.5, 'kl': 0.1}}",
    ],
)
def test_a_dict_takes_the_step_of_the_text_before_its_name(tmp_path, line):
    """Its rows would be counted, and a resume would not be seen."""
    (tmp_path / "x.log").write_text("".join(f"{line.format(step)}\n" for step in (0, 20, 0)))
    steps = [(step.step, step.attempt, step.signals) for step in read(tmp_path / "x.log")]
    assert steps == [
        (step, attempt, {"reward/mean": 0.5, "kl/ref": 0.1}) for step, attempt in ((0, 1), (20, 1), (0, 2))
    ]


@pytest.mark.parametrize(
    "line",
    [
        "In step {} of the proof we find that x = {{'reward': 0.5}}",
        "step={} best={{'reward': 0.5}}",
        "step={} metrics={{'step': 7, 'reward': 0.5}}",
        "trainer:train_step:{} - metrics={{'reward': 0.5}}",
    ],
)
def test_a_dict_takes_no_step_of_a_sentence_or_beside_its_own(tmp_path, line):
    """A line number of the source stays the same in all lines."""
    (tmp_path / "x.log").write_text(f"{line.format(40)}\n")
    assert {step.step for step in read(tmp_path / "x.log")} <= {0, 7}


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("step=3 reward=0.5 steps=14", 3),
        ("steps=14 step=3 reward=0.5", 3),
        ("iter=3 reward=0.5 steps=14", 3),
        ("episode=3 reward=0.5 steps=14", 14),
        ("step=3 reward=0.5 iter=4", 4),
    ],
)
def test_steps_in_a_line_are_no_step_beside_another_name_of_it(tmp_path, line, step):
    """They are the length of an episode there, and each step that is lower would begin an attempt."""
    (tmp_path / "x.log").write_text(f"{line}\n")
    assert [(found.step, found.signals) for found in read(tmp_path / "x.log")] == [(step, {"reward/mean": 0.5})]
