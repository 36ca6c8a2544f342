#!/usr/bin/env bash
# slime, watched: one argument. The attempt is the same on every rank and higher at each launch.
export RLVITALS_URL=http://collector:8600 RLVITALS_RUN=qwen-3b
RLVITALS_ATTEMPT=$(date +%s%3N)
export RLVITALS_ATTEMPT
python train.py --rollout-data-postprocess-path trainer_hooks.callbacks.slime.watch "$@"
