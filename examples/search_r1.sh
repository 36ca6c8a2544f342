#!/usr/bin/env bash
# Search-R1, watched: a line in site-packages on every node, once, two variables that Ray's processes inherit, and the
# logger's name.
python -m trainer_hooks.callbacks.bootstrap install
export RLVITALS_HOOKS=verl RLVITALS_URL=http://collector:8600
python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo max_turns=2 \
    trainer.logger='["console","rlvitals"]' \
    trainer.project_name=Search-R1 trainer.experiment_name=nq-qwen2.5-3b \
    "$@"
