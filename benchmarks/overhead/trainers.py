"""The share of a training's step that the SDK takes: TRL on a tiny Qwen2 at level L3, and the reference trainer.

The whole is the process's processor time over the steps, all threads on one core; `meter` counts the SDK's part. As a
check, the same training runs without the SDK in turns.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

import trainer_hooks
from benchmarks.collectors import collector
from benchmarks.overhead.core import one_core
from benchmarks.overhead.meter import Meter, delivery_seconds
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.presets import PRESETS
from trainer_hooks.reference.run.loop import Loop
from trainer_hooks.reference.run.trainer import Trainer

__all__ = ["Share", "shares"]

FEWEST_ROUNDS = 2  # a single round has no standard error
# Many short rounds: the machine's speed drifts, and two consecutive rounds differ less the shorter they are.
TRL_TINY_STEPS, TRL_STEPS, REFERENCE_STEPS = 4, 24, 12
WARM_STEPS = 5  # how good the policy is does not matter here
WORDS = 64
# Builds a training with a monitor or without one; calling the result trains.
Build = Callable[[trainer_hooks.Monitor | None, Path], Callable[[], object]]


class Training(NamedTuple):
    """A training, its number of steps, and its number of rounds if it differs from the one asked for."""

    build: Build
    steps: int
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A training's processor seconds a step, and the SDK's shares of it, in the training's thread and in its own.

    ``with_us`` and ``without`` hold the processor seconds of rounds, all threads; ``own_with_us`` and ``own_without``
    those of the training's own thread.
    """

    step_seconds: float
    held_share: float
    thread_share: float
    with_us: list[float]
    without: list[float]
    own_with_us: list[float]
    own_without: list[float]

    @property
    def difference(self) -> float:
        """The additional cost of the steps with the SDK, as a share of the paired round without; mean of all rounds."""
        return fmean(self._differences)

    @property
    def standard_error(self) -> float:
        """Standard error of the difference."""
        return stdev(self._differences) / sqrt(len(self._differences))

    @property
    def hindrance(self) -> float:
        """The additional time of the training's own work while the SDK's threads run, as a share of a step."""
        rounds = zip(self.own_with_us, self.own_without, self.without, strict=True)
        return (
            fmean((own_with_us - own_without) / whole for own_with_us, own_without, whole in rounds) - self.held_share
        )

    @property
    def _differences(self) -> list[float]:
        return [with_us / without - 1 for with_us, without in zip(self.with_us, self.without, strict=True)]


def shares(report: Callable[[str], None], *, rounds: int) -> dict[str, Share]:
    """Train with the SDK and without, alternately, and return the SDK's shares."""
    rounds = max(rounds, FEWEST_ROUNDS)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name, collector(Path(name) / "rlvitals.db") as (url, _), one_core():
        folder = Path(name)
        trainings: dict[str, Training] = {
            "TRL's own tiny Qwen2, 8 responses of up to 64 tokens": Training(_trl_tiny, TRL_TINY_STEPS, FEWEST_ROUNDS),
            "TRL, 32 responses of up to 64 tokens, Qwen2 64 wide that knows 64 words": Training(_trl_toy, TRL_STEPS),
            "reference trainer, 64 responses, 16 updates": Training(_reference, REFERENCE_STEPS),
            "reference trainer, preset demo": Training(_demo, REFERENCE_STEPS),
        }
        found = {}
        for title, training in trainings.items():
            training.build(None, folder)()  # imports and warm caches
            turns = training.rounds or rounds
            report(f"{title}: {turns} rounds")
            found[title] = _share(training.build, url, folder, steps=training.steps, rounds=turns)
        return found


def _share(build: Build, url: str, folder: Path, *, steps: int, rounds: int) -> Share:
    meter, threads = Meter(), 0.0
    with_us: list[tuple[float, float]] = []
    without: list[tuple[float, float]] = []
    for number in range(rounds):
        # They alternate in going first: a machine gets slower or faster for minutes.
        for is_watched in (number % 2 == 0, number % 2 != 0):
            if not is_watched:
                without.append(_timed(build(None, folder)))
                continue
            with trainer_hooks.connect(url, run=f"{build.__name__}-{number}") as monitor, meter.installed():
                train = build(monitor, folder)
                monitor.flush()  # the first batch, which a run sends once
                before = delivery_seconds()
                with_us.append(_timed(train, monitor.flush))
                threads += delivery_seconds() - before
    whole = sum(all_threads for all_threads, _ in with_us)
    return Share(
        step_seconds=whole / rounds / steps,
        held_share=meter.seconds / whole,
        thread_share=threads / whole,
        with_us=[all_threads for all_threads, _ in with_us],
        without=[all_threads for all_threads, _ in without],
        own_with_us=[own for _, own in with_us],
        own_without=[own for _, own in without],
    )


def _timed(*calls: Callable[[], object]) -> tuple[float, float]:
    """Measure the processor seconds of all threads, and of this one."""
    began = time.process_time(), time.thread_time()
    for call in calls:
        call()
    return time.process_time() - began[0], time.thread_time() - began[1]


def _demo(monitor: trainer_hooks.Monitor | None, folder: Path) -> Callable[[], object]:
    return _reference(monitor, folder, **PRESETS["demo"])


def _reference(monitor: trainer_hooks.Monitor | None, folder: Path, **preset: Any) -> Callable[[], object]:  # noqa: ANN401 - settings
    settings = preset | {"steps": REFERENCE_STEPS, "warm_steps": WARM_STEPS}
    config = Config(**settings, cache=folder / "warm", checkpoints=folder)
    trainer = Trainer(config, warm_start(config))
    return Loop(config, trainer, monitor or trainer_hooks.NullMonitor(), lambda _: None).run


def _trl_tiny(monitor: trainer_hooks.Monitor | None, folder: Path) -> Callable[[], object]:
    """Train the model of TRL's own tests, ``trl-internal-testing/tiny-Qwen2ForCausalLM-2.5``, with random weights."""
    shape = {"vocab_size": 152_064, "hidden_size": 8, "intermediate_size": 32}
    return _grpo(monitor, folder, shape, max_steps=TRL_TINY_STEPS)


def _trl_toy(monitor: trainer_hooks.Monitor | None, folder: Path) -> Callable[[], object]:
    """Train the fastest GRPO with groups and several updates: a model with a vocabulary of 64 words."""
    shape = {"vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 128}
    return _grpo(monitor, folder, shape, max_steps=TRL_STEPS, per_device_train_batch_size=32, num_iterations=2)


def _grpo(
    monitor: trainer_hooks.Monitor | None,
    folder: Path,
    shape: Mapping[str, Any],
    **arguments: Any,  # noqa: ANN401 - settings
) -> Callable[[], object]:
    set_seed(0)
    config = Qwen2Config(
        **shape, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, eos_token_id=1
    )
    settings: dict[str, Any] = {
        "num_generations": 8,
        "max_completion_length": 64,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    } | arguments
    trainer = GRPOTrainer(
        model=Qwen2ForCausalLM(config),
        reward_funcs=_share_of_small_numbers,
        args=GRPOConfig(output_dir=str(folder / "trl"), **settings),
        train_dataset=Dataset.from_list([{"prompt": f"{index % WORDS} {index % 7 + 2}"} for index in range(64)]),
        processing_class=_tokenizer(),
        callbacks=[VitalsCallback(monitor)] if monitor else [],
    )
    trainer.remove_callback(PrinterCallback)
    train: Callable[[], object] = trainer.train
    return train


def _share_of_small_numbers(completions: list[str], **_: object) -> list[float]:
    return [sum(word.isdecimal() and int(word) < WORDS // 4 for word in text.split()) / 64 for text in completions]


def _tokenizer() -> PreTrainedTokenizerFast:
    padding, end = "<pad>", "<eos>"
    words = {padding: 0, end: 1} | {str(number): number for number in range(2, WORDS)}
    core = Tokenizer(models.WordLevel(words, unk_token=padding))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core, pad_token=padding, eos_token=end, padding_side="left"
    )
