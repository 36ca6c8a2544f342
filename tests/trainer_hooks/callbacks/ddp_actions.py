"""One rank of a plain data-parallel loop that may be told to stop. Arguments: output folder, stories."""

import hashlib
import json
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks import agreement
from trainer_hooks.callbacks.torch_loop import LoopWatch

STEPS = 12


def train(story):
    """Train until told to stop; give the step after which that was, and the weights."""
    if story.startswith("deaf"):
        agreement.PATIENCE_SECONDS = 0.1  # a minute of a run whose steps take seconds
    policy = ActionPolicy({"critical": "stop"}, dry_run=False)
    monitor = trainer_hooks.connect(run=story, on_alert=policy.take)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    stopped_after = None
    with LoopWatch(optimizer, monitor, policy=policy) as watch:
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).square().mean().backward()
            optimizer.step()
            if watch.decisions:
                stopped_after = step
                break
            assert monitor.flush()
    weights = b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())
    return {"stopped_after": stopped_after, "weights": hashlib.sha256(weights).hexdigest()}


torch.set_num_threads(1)
distributed.init_process_group("gloo")
folder, *stories = sys.argv[1:]
done = {story: train(story) for story in stories}
(Path(folder) / f"rank{distributed.get_rank()}.json").write_text(json.dumps(done))
distributed.destroy_process_group()
