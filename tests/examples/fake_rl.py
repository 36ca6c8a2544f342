"""Stands in for ``uv run rl``: fills a run's folder as prime-rl does, and fails.

Its last steps become complete only when the first is known to have arrived, and just before its end.
"""

import argparse
import json
import sys
from pathlib import Path

from tests.patience import eventually


def complete(folder: Path, step: int) -> None:
    """Export a step of one response of two tokens, and mark it."""
    target = folder / "token_exports" / f"step_{step}"
    target.mkdir(parents=True)
    mask = [False, True, True]
    numbers = {name: [0.0, -1.0, -1.0] for name in ("trainer_logprobs", "inference_logprobs", "entropy", "advantages")}
    sequence = {"token_ids": [7, step, 9], "loss_mask": mask, "rewards": [1.0] * 3} | numbers
    (target / "rank_0.jsonl").write_text(json.dumps(sequence) + "\n")
    (target / "STABLE").touch()


def main() -> int:
    """Train three steps and give the exit status of a failure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs=4)
    parser.add_argument("--trainer.enable-token-export", action="store_true", required=True)
    parser.add_argument("--output-dir", type=Path, required=True)
    parser.add_argument("--run.name", dest="name", required=True)
    parser.add_argument("--max-steps", required=True)
    given = parser.parse_args()
    assert given.words == ["run", "rl", "@", "rl.toml"]
    folder = given.output_dir / given.name
    assert not folder.exists(), "prime-rl wants a folder of its own"
    complete(folder, 1)
    eventually((folder / "rlvitals_followed.json").exists, seconds=60)
    complete(folder, 2)
    complete(folder, 3)
    return 3


sys.exit(main())
