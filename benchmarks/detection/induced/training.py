"""One run of suite D: a trainer of TRL, watched by the callback, with or without a failure."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, Qwen2ForCausalLM, set_seed
from trl import GRPOTrainer, RLOOTrainer

from benchmarks.detection.induced.failures import Failure
from benchmarks.detection.induced.grader import Grader
from benchmarks.detection.induced.inducing import Inducing
from benchmarks.detection.induced.sampler import LONGEST, Sampler
from benchmarks.detection.induced.setting import Setting, TrainerKind
from benchmarks.detection.induced.task import Problems, tokenizer, warm_model
from benchmarks.detection.induced.trainers import build_trainer
from trainer_hooks import Monitor
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.settings import ConnectionSettings
from trainer_hooks.wire import Receipt, decode_batch, decode_record, merge

__all__ = ["Row", "train"]

Row = dict[str, Any]
PROBLEMS, HELD_OUT, PAIRED = 512, 64, 24
PROBE_EVERY = 2  # a third of the time of a step is saved
# Beginnings of the names of metrics that depend on the machine and not on the training.
UNSTEADY = ("time/", "hooks/", "step_time", "trl/step_time", "trl/num_tokens", "epoch", "train_", "num_tokens")


def train(setting: Setting, failure: Failure | None, kind: TrainerKind = TrainerKind.GRPO) -> list[Row]:
    """Train one run with a trainer of TRL, and return a row for each step.

    Returns:
        Rows with ``step``, ``quality`` (`task.quality` after the step), ``hooks`` (the signals that the callback sent)
        and ``log`` (the metrics that TRL logged).
    """
    torch.set_num_threads(1)
    random = np.random.default_rng([setting.seed, 2])
    problems, held_out = Problems.drawn(PROBLEMS, random), _held_out(setting.seed)
    sent = _Memory()
    monitor = Monitor(
        ConnectionSettings(url="http://memory", project="suite-d", run="run", attempt=1, responses=0), sent
    )
    monitor.start()
    with tempfile.TemporaryDirectory() as folder:
        induced = Inducing(setting, failure, held_out)
        amount = lambda: induced.amount  # noqa: E731 - read at every call
        # TRL reads the reference model from the folder that the model came from.
        started = Path(folder, "start")
        _warm_model(setting.seed, setting.start).save_pretrained(started)
        set_seed(setting.seed)
        grader = Grader(problems.answers, setting.seed, lambda: induced.step, amount, failure)
        sampler = Sampler(problems, setting.seed, amount, failure)

        def reserved(trainer: GRPOTrainer | RLOOTrainer) -> dict[str, Any]:
            model = trainer.accelerator.unwrap_model(trainer.model)
            return sampler.hold_out(model, Problems.drawn(PAIRED, random))

        trainer = build_trainer(
            kind,
            sampler,
            options=setting.options,
            config={
                "output_dir": folder,
                "max_completion_length": LONGEST,
                "max_steps": setting.steps,
                "lr_scheduler_type": "constant",
                "logging_steps": 1,
                "use_cpu": True,
                "bf16": False,
                "report_to": "none",
                "save_strategy": "no",
                "disable_tqdm": True,
                "activation_checkpointing": False,
                "seed": setting.seed,
            },
            model=Qwen2ForCausalLM.from_pretrained(started),
            reward_funcs=[grader.exact, grader.style],
            train_dataset=Dataset.from_dict({"prompt": problems.texts(), "index": list(range(PROBLEMS))}),
            processing_class=tokenizer(),
            callbacks=[induced, VitalsCallback(monitor, correct="exact", probe_every=PROBE_EVERY, reserved=reserved)],
        )
        trainer.remove_callback(PrinterCallback)
        induced.trainer = trainer
        trainer.train()
    monitor.close()
    signals = sent.signals()
    logged = {row["step"]: row for row in trainer.state.log_history if "loss" in row or "reward" in row}
    return [
        {"step": step, "quality": found, "hooks": _steady(signals[step]), "log": _steady(logged.get(step, {}))}
        for step, found in enumerate(induced.qualities, start=1)
    ]


@functools.lru_cache(maxsize=1)  # for the twin
def _warm_model(seed: int, start: float) -> Qwen2ForCausalLM:
    return warm_model(seed, start, _held_out(seed))


def _held_out(seed: int) -> Problems:
    return Problems.drawn(HELD_OUT, np.random.default_rng([seed, 3]))


class _Memory:
    """A transport that keeps the batches that a collector would receive."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []

    def send(self, body: bytes) -> Receipt:
        """Keep a batch."""
        self._bodies.append(body)
        return Receipt(run_id="run", accepted=len(decode_batch(body).records))

    def signals(self) -> dict[int, dict[str, float]]:
        """Return the signals of each step."""
        records = [decode_record(raw) for body in self._bodies for raw in decode_batch(body).records]
        return {record.step: merge([record]) for record in records}


def _steady(numbers: dict[str, Any]) -> dict[str, float]:
    kept = {name: value for name, value in numbers.items() if isinstance(value, int | float) and name != "step"}
    return {name: float(value) for name, value in kept.items() if not name.startswith(UNSTEADY)}
