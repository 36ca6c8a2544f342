"""``python -m benchmarks.model_monitors``: the time that model monitors take from training.

This uses random models of Hugging Face on one thread, on the CPU or on the accelerator where there is one. A step is a
forward and a backward pass over 4 × 256 tokens and an update. Read the last two columns: how many steps a measurement
costs, and its share of training at every 50th step. Both are lower with more tokens per step, as in real training.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from trainer_hooks.model_monitors import ModelMonitors

STEPS = 3
EVERY = 50
SIZES: dict[str, Any] = {
    "vocab_size": 2048,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
}
MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "Llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "Qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "Mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2)),
}
LOOKS: dict[str, dict[str, bool]] = {
    "attention": {"routers": False, "gradients": False},
    "routers": {"attention": False, "gradients": False},
    "gradients": {"attention": False, "routers": False},
    "all": {},
    "all, update": {"attention_update": True},
}


def seconds_of_steps(model: torch.nn.Module, monitors: ModelMonitors) -> tuple[float, float]:
    """Measure the median seconds of a step without and with a measurement, in turn."""
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    tokens = torch.arange(4 * 256, device=device).view(4, 256) % 2048
    monitors.attach()
    taken: tuple[list[float], list[float]] = ([], [])
    for step in range(1, 2 * STEPS + 1):
        started = _now(device)
        # The monitor is due at every second step; the first step, which is always due, warms up.
        monitors.begin_step(step)
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        monitors.measure_gradients()
        optimizer.step()
        monitors.end_step()
        if step > 1:
            taken[step % 2 == 0].append(_now(device) - started)
    return statistics.median(taken[0]), statistics.median(taken[1])


def _now(device: torch.device) -> float:
    """Return seconds. On the CPU they are this thread's processor time, so that other load does not count."""
    if device.type != "cuda":
        return time.thread_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> int:
    """Print the table."""
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(
        f"{device:8} {'measured':12} {'step, ms':>10} {'measured, ms':>14} {'steps of cost':>13} {'at every 50th':>14}"
    )
    for name, build in MODELS.items():
        torch.manual_seed(0)
        model = build().to(device).train()
        for look, options in LOOKS.items():
            if look == "routers" and name != "Mixtral":
                continue
            bare, looked = seconds_of_steps(model, ModelMonitors(model, every=2, **options))
            extra = (looked - bare) / bare
            print(f"{name:8} {look:12} {bare * 1e3:10.1f} {looked * 1e3:14.1f} {extra:13.3f} {extra / EVERY:14.2%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
