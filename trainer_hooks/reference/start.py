"""What a run begins with: the built-in policy and world, or a model, questions and a search tool of one's own."""

from collections.abc import Callable

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.facts.world import FactsWorld
from trainer_hooks.reference.policy.warm_start import warm_start
from trainer_hooks.reference.protocols import Policy, World

__all__ = ["policy_and_world"]


def policy_and_world(config: Config, *, report: Callable[[str], None] = lambda _: None) -> tuple[Policy, World]:
    """Give the policy, on the CPU, and the world that the settings name.

    Raises:
        ValueError: If a file, a folder or the tool cannot be used; the message says which and why.
    """
    if config.model is None:
        return warm_start(config), FactsWorld(config)
    # Nobody who stays with the built-in world needs transformers or bm25s.
    try:
        from trainer_hooks.reference.search.start import search_policy_and_world  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; a model of your own needs pip install 'rlvitals[search]'") from error
    return search_policy_and_world(config, report=report)
