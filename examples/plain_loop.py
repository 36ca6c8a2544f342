"""REINFORCE on a bandit in plain PyTorch, watched: `LoopWatch` and one `note` a step."""

import torch

import trainer_hooks
from trainer_hooks.callbacks.torch_loop import LoopWatch

policy = torch.nn.Linear(4, 8)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.05)

with LoopWatch(optimizer, trainer_hooks.connect()) as watch:
    for _ in range(20):
        states = torch.eye(4).repeat(8, 1)
        distribution = torch.distributions.Categorical(logits=policy(states))
        actions = distribution.sample()
        rewards = (actions == states.argmax(dim=1)).float()
        logprobs = distribution.log_prob(actions)
        advantages = rewards - rewards.mean()

        optimizer.zero_grad()
        loss = -(advantages * logprobs).mean()
        loss.backward()
        watch.note(
            {"loss/policy": loss},
            rollouts={
                "logprobs": logprobs[:, None],
                "mask": torch.ones(len(actions), 1, dtype=torch.bool),
                "rewards": rewards,
                "entropies": distribution.entropy()[:, None],
                "advantages": advantages,
                "group_ids": states.argmax(dim=1),
            },
        )
        optimizer.step()
