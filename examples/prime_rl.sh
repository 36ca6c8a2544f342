#!/usr/bin/env bash
# prime-rl, watched: it exports its tokens, and a process of ours follows the run's folder.
python -m trainer_hooks.callbacks.prime_rl outputs/qwen-3b --url http://collector:8600 &
uv run rl @ rl.toml --trainer.enable-token-export --output-dir outputs/qwen-3b "$@"
kill %1
