"""The work of each rank of a Megatron trainer when slime calls our hook. Arguments: Megatron's layout as keywords."""

import contextlib
import sys
from types import SimpleNamespace

import torch
from megatron.core import parallel_state
from torch import distributed

from tests.fresh_slime import fresh_slime

slime, close = contextlib.ExitStack().enter_context(fresh_slime())
distributed.init_process_group("gloo")
parallel_state.initialize_model_parallel(
    **{name: int(size) for name, size in (word.split("=") for word in sys.argv[1:])}
)
share = parallel_state.get_data_parallel_rank(with_context_parallel=False)
data = {
    "loss_masks": [torch.ones(2)] * 2,
    "rollout_log_probs": [torch.full((2,), -9.0)] * 2,
    "rewards": [1.0, 0.0],
    "raw_reward": [1.0, 0.0] * 2,
}
if parallel_state.is_pipeline_last_stage():
    data |= {"log_probs": [torch.full((2,), -1.0 - share)] * 2}
slime.watch(SimpleNamespace(advantage_estimator="ppo", lr=1e-6), 0, data)
close()
distributed.destroy_process_group()
