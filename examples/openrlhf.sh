#!/usr/bin/env bash
# OpenRLHF, watched: a line in site-packages on every node, once, and two variables that Ray's processes inherit.
python -m trainer_hooks.callbacks.bootstrap install
export RLVITALS_HOOKS=openrlhf RLVITALS_URL=http://collector:8600
ray start --head
python -m openrlhf.cli.train_ppo_ray --logger.wandb.project search --logger.wandb.run_name qwen-3b "$@"
