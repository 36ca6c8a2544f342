"""Run one rank of sharded trainings that compute numbers again. Argument: a folder."""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from tests.trainer_hooks.fsdp import shard_1
from trainer_hooks.probes.recomputation import RecomputationProbe, ReportedResponses

STEPS, VOCABULARY, WIDTH = 5, 11, 8


class Model(nn.Module):
    """A language model of three layers, one of which can fail."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, *, fails=False):
        """Return logits."""
        state = self.embedding(tokens)
        for layer in self.layers:
            state = layer(state).tanh()
        if fails:
            raise RuntimeError("out of memory")
        return self.head(state)


def train(shard, way):
    """Return a fingerprint of the final weights, the number of comparisons, and the errors."""
    torch.manual_seed(distributed.get_rank())
    model = Model()
    for place, layer in enumerate(model.layers):
        model.layers[place] = shard(layer)
    model = shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    errors, compared = [], 0
    probe = RecomputationProbe(1, on_error=lambda error: errors.append(str(error)))
    for step in range(1, STEPS + 1):
        tokens = torch.randint(VOCABULARY, (4, 6))
        table = model(tokens)[:, :-1].log_softmax(-1)
        logprobs = nn.functional.pad(table.gather(2, tokens[:, 1:, None])[:, :, 0], (1, 0))
        optimizer.zero_grad()
        logprobs.mean().backward()
        if way != "alone" and probe.is_due(step):
            rows = 0 if way == "one rank has no responses" and distributed.get_rank() == 1 else 4
            reported = ReportedResponses(tokens[:rows], torch.ones(rows, 6), logprobs[:rows])
            if way == "one rank has other shapes" and distributed.get_rank() == 1:
                reported = reported._replace(mask=torch.ones(4, 5))
            fails = way == "the pass raises"
            compared += len(
                probe.recompute(model, reported, forward=lambda ids, _, fails=fails: model(ids, fails=fails))
            )
        optimizer.step()
        probe.after_step()
    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model):
            whole = [weight.detach().clone() for weight in model.parameters()]
    else:
        whole = [weight.detach().full_tensor() for weight in model.parameters()]
    return hashlib.sha256(b"".join(weight.numpy().tobytes() for weight in whole)).hexdigest(), compared, errors


def replace_group(folder):
    """Return whether a probe is due in the process group in which all ranks have one, and in the next group."""
    probe, due = RecomputationProbe(1), []
    for _ in range(2):
        probe.after_step()
        distributed.barrier()
    due.append(probe.is_due(1))
    rank = distributed.get_rank()
    distributed.destroy_process_group()
    store = distributed.FileStore(str(folder / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    probe.after_step()
    return [*due, probe.is_due(1)]


def main(folder):
    """Train in each way."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    ways = ("alone", "as documented", "the pass raises", "one rank has no responses", "one rank has other shapes")
    found = {
        name: {way: train(shard, way) for way in ways} for name, shard in (("FSDP1", shard_1), ("FSDP2", fully_shard))
    }
    (folder / f"rank{distributed.get_rank()}.json").write_text(json.dumps(found))
    (folder / f"due{distributed.get_rank()}.json").write_text(json.dumps(replace_group(folder)))
    distributed.barrier()
    # DTensor's caches keep gloo's threads, which may abort a process that ends; see Ranks.leave.
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
