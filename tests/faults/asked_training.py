"""A plain PyTorch loop that takes requests: it ends when it is asked to stop, and prints its decisions.

Arguments: the collector's address, and the requests that its policy takes, separated by commas.
"""

import sys
import time

import torch

import trainer_hooks
from trainer_hooks.actions import ActionPolicy
from trainer_hooks.callbacks.torch_loop import LoopWatch


def main(url: str, requests: str) -> None:
    """Train until a request ends the loop, or for ten minutes."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    policy = ActionPolicy({}, dry_run=False, requests=[each for each in requests.split(",") if each])
    monitor = trainer_hooks.connect(url, run="asked", actions=policy)
    deadline = time.monotonic() + 600.0
    with LoopWatch(optimizer, monitor) as watch:
        while time.monotonic() < deadline:
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).square().mean()
            loss.backward()
            watch.note({"page": 1.0, "reward/mean": -loss.item()})
            optimizer.step()
            for decision in watch.decisions:
                sys.stdout.write(f"{decision.action} {decision.reason}\n")
            if any(decision.action == "stop" for decision in watch.decisions):
                return
            time.sleep(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
