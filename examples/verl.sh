#!/usr/bin/env bash
# verl 0.9 and newer, watched: the logger's name. verl loads the adapter by its entry point in every process.
# For verl 0.6 to 0.8 also: export VERL_USE_EXTERNAL_MODULES=trainer_hooks.callbacks.verl
python -m verl.trainer.main_ppo \
    trainer.logger='["console","rlvitals"]' \
    trainer.project_name=search trainer.experiment_name=qwen-3b \
    +ray_kwargs.ray_init.runtime_env.env_vars.RLVITALS_URL=http://collector:8600 \
    "$@"
# With LLDS: actor_rollout_ref.actor.policy_loss.loss_mode=llds actor_rollout_ref.actor.ppo_epochs=2
# (trainer_hooks.losses.verl.register_llds registers it with other settings.)
