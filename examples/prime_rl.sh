#!/usr/bin/env bash
# prime-rl, watched: it exports its tokens, and a follower process reads the run's folder as soon as it exists.
# In prime-rl 0.8 that folder is --output-dir outputs/qwen-3b, without --run.name.
python -m trainer_hooks.callbacks.prime_rl outputs/qwen-3b --url http://collector:8600 &
follower=$!
uv run rl @ rl.toml --trainer.enable-token-export --output-dir outputs --run.name qwen-3b "$@"
status=$?
kill $follower # it sends the last steps, then ends
wait $follower
exit $status
