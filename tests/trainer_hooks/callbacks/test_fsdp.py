import json
from pathlib import Path

import pytest

from tests.ranks import launch
from tests.trainer_hooks.callbacks import tiny_trl
from trainer_hooks.wire import decode_record

PAIRED = {"entropy/paired_delta", "displacement/self", "displacement/cross"}
WORKER = Path(__file__).with_name("fsdp_trainings.py")


@pytest.mark.slow
def test_a_sharded_model_is_scored_again_and_ends_the_same(collector, tmp_path):
    """FSDP1, FSDP2 and TRL on a real gloo group: nobody hangs, weights and generators are the same to the last bit."""
    tiny_trl.model(tmp_path)
    launch(WORKER, str(tmp_path), RLVITALS_URL=collector.url)
    for rank in range(2):
        for name, (alone, watched) in json.loads((tmp_path / f"rank{rank}.json").read_text()).items():
            assert watched == alone, (name, rank)
    records = [
        (batch.run, batch.rank, record) for batch in collector.batches for record in map(decode_record, batch.records)
    ]
    for name in ("FSDP1", "FSDP2", "TRL"):
        told = sorted((record.step, rank) for run, rank, record in records if run == name)
        assert told == [(step, rank) for step in range(1, 5) for rank in range(2)]
        scored = {record.step for run, _, record in records if run == name and PAIRED & record.summaries.keys()}
        assert scored == {2, 4}
