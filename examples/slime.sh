#!/usr/bin/env bash
# slime, watched: one argument, and the address where Ray's processes see it.
export RLVITALS_URL=http://collector:8600 RLVITALS_RUN=qwen-3b
python train.py --custom-rollout-log-function-path trainer_hooks.callbacks.slime.watch_samples "$@"
