"""Suite A: authored telemetry, made from seeds alone; nothing in it was recorded.

The noise follows what a real tiny GRPO showed (detection.md, 3.1): the policy's entropy moves with momentum, the
paired entropy change sees the policy and not the prompts, the likelihood of correct responses is a selected mean.
A detector built on the same equations is favoured here; suites B and C are there because of that.
"""
