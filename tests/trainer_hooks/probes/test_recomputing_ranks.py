import json
from pathlib import Path

import pytest

from tests.ranks import launch

WORKER = Path(__file__).with_name("recomputing_ranks.py")
DUE = 3  # the steps from the third to the fifth


@pytest.mark.slow
def test_a_failed_recomputation_of_sharded_weights_neither_hangs_a_rank_nor_changes_the_training(tmp_path):
    """Where the pass raises, or one rank has no responses or wrong ones, all ranks end with the weights of no probe.

    In another process group, whose ranks may be others, the probe is not due any more.
    """
    launch(WORKER, str(tmp_path), timeout=120)
    for rank in range(2):
        assert json.loads((tmp_path / f"due{rank}.json").read_text()) == [True, False]
        for found in json.loads((tmp_path / f"rank{rank}.json").read_text()).values():
            weights = {way: result[0] for way, result in found.items()}
            assert set(weights.values()) == {weights["alone"]}, weights
            compared = {way: result[1] for way, result in found.items()}
            assert compared == {
                "alone": 0,
                "as documented": DUE,
                "the pass raises": 0,
                "one rank has no responses": DUE if rank == 0 else 0,
                "one rank has other shapes": DUE if rank == 0 else 0,
            }
            assert found["the pass raises"][2] == ["out of memory"] * DUE
            assert found["one rank has no responses"][2] == []
