import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("megatron.core", reason="Megatron has an environment of its own: make test-trainers")

from trainer_hooks.wire import decode_record, merge

# isort: split
RANKS = Path(__file__).with_name("slime_ranks.py")
LAYOUTS = ["tensor_model_parallel_size=2", "pipeline_model_parallel_size=2", "context_parallel_size=2"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_megatrons_ranks_with_equal_data_speak_once(layout, collector):
    """Four processes in a layout of Megatron's own: two shares arrive, of the last stage, and the step is complete."""
    rendezvous = ["--standalone", "--nproc-per-node", "4"]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", *rendezvous, str(RANKS), layout],
        check=True,
        timeout=240,
        # Ray has no LOCAL_WORLD_SIZE, which torchrun sets; the attempt is given, as slime's users have to.
        env=os.environ
        | {"PYTHONPATH": str(RANKS.parents[2]), "OMP_NUM_THREADS": "1"}
        | {"RLVITALS_URL": collector.url, "RLVITALS_RUN": "r", "RLVITALS_ATTEMPT": "7"},
    )
    batches = [batch for batch in collector.batches if batch.records]
    assert sorted((batch.rank, batch.world_size) for batch in batches) == [(0, 2), (1, 2)]
    step = merge(decode_record(raw) for batch in batches for raw in batch.records)
    assert step["reward/mean"] == 0.5
    if "context" in layout:
        assert "likelihood/correct" not in step
    else:
        # The value is −1 on the first rank and −2 on the second; the sampler's −9 is no likelihood of the trainer.
        assert step["likelihood/correct"] == -1.5
        assert step["mismatch/logprob_abs"] == 7.5
