"""The experiments: the figure of the paper that each is compared with, its arms and its panels."""

from dataclasses import dataclass

from trainer_hooks.reference.experiments.arms import ARMS, PROBE_ARMS

__all__ = ["EXPERIMENTS", "MOST_ARMS", "REGIMES", "Experiment"]

LIKELIHOOD = "likelihood/correct"
REGIMES = "regimes"  # the experiment with a panel for each preset
MOST_ARMS = 8  # the number of distinguishable colours


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment: title, arms in the order of their colours, and panels as ``label: how to get it``.

    A panel's recipe is a signal's name, ``log <signal>`` on a logarithmic scale, ``sum <signal>`` for its running sum,
    or ``<signal> * <signal>``; ``of <arm> <arm>`` behind it leaves the other arms out. An experiment without panels is
    the one on questions (Fig. 3).
    """

    title: str
    arms: tuple[str, ...]
    panels: dict[str, str]

    def __post_init__(self) -> None:
        unknown = [arm for arm in self.arms if arm not in ARMS | PROBE_ARMS]
        if unknown:
            raise ValueError(f"arms must be among {', '.join(ARMS)}, got {', '.join(unknown)}")
        if len(self.arms) > MOST_ARMS:
            raise ValueError(f"an experiment must have at most {MOST_ARMS} arms, one a colour, got {len(self.arms)}")


_OUTCOME = {"reward": "reward/mean", "ln p of correct responses, nats a token": LIKELIHOOD}
_ENTROPY = {"entropy, nats a token": "entropy/mean"}
_GRADIENT = {"gradient norm before clipping": "grad/norm"}
_PAIRED = {
    "entropy on held-out contexts, summed change": "sum entropy/paired_delta",
    "held-out correct responses, summed displacement": "sum displacement/cross",
}

EXPERIMENTS: dict[str, Experiment] = {
    "dynamics": Experiment(
        "Dynamics and phases of GRPO (Fig. 2)", ("grpo",), _OUTCOME | _ENTROPY | _GRADIENT | _PAIRED
    ),
    "displacement": Experiment("Displacement by question, before the collapse (Fig. 3)", ("grpo",), {}),
    "entropy": Experiment(
        "Entropy against length and searches (Fig. 4)",
        ("grpo",),
        _ENTROPY
        | {
            "action tokens a response": "length/mean",
            "valid searches a response": "tools/calls * tools/valid_frac",
            "malformed actions, share of responses": "tools/malformed_frac",
        },
    ),
    "actions": Experiment(
        "First and second action (Fig. 5)",
        ("grpo",),
        {
            "ln p of the first action, nats a token": "likelihood/action0",
            "ln p of the second action, nats a token": "likelihood/action1",
            "entropy of the first action": "entropy/action0",
            "entropy of the second action": "entropy/action1",
            "incorrect responses with a correct first search": "similarity/first_action_shared",
            "ln p of incorrect responses, nats a token": "likelihood/incorrect",
        },
    ),
    "sizes": Experiment(
        "GRPO and LLDS over sizes and warm starts (Fig. 6)",
        ("grpo", "llds-0.1", "grpo-narrow", "llds-narrow", "grpo-wide", "llds-wide", "grpo-strong", "llds-strong"),
        {
            "reward, width 64": "reward/mean of grpo llds-0.1",
            "reward, width 48": "reward/mean of grpo-narrow llds-narrow",
            "reward, width 96": "reward/mean of grpo-wide llds-wide",
            "reward, width 64, a warm start of twice the steps": "reward/mean of grpo-strong llds-strong",
        },
    ),
    "lambda": Experiment("Weight of LLDS (Fig. 8)", ("grpo", "llds-0.01", "llds-0.1"), _OUTCOME | _ENTROPY | _GRADIENT),
    "masking": Experiment(
        "Answer masking, the gate by action and without a gate, and the number of searches (Fig. 9)",
        ("grpo", "llds-0.1", "llds-0.1-action", "llds-ma-0.1", "lld-0.1"),
        _OUTCOME | {"valid searches a response": "tools/calls * tools/valid_frac"} | _ENTROPY,
    ),
    "multipliers": Experiment(
        "Displacement by question at 1 to 16 times the learning rate, beside GWHES (Fig. 3)",
        ("grpo-sweep", "grpo-sweep-short"),
        {
            "reward": "reward/mean",
            "multiplier at which half of the questions fall, s*": "log probe/half_fall_multiplier",
            "GWHES, nats per unit of learning rate": "similarity/gwhes",
            "share of questions with GWHES above 0": "similarity/gwhes_positive_frac",
            "GWHES of the first action": "similarity/gwhes_action0",
            "share of questions with GWHES of the first action above 0": "similarity/gwhes_action0_positive_frac",
        },
    ),
    "decomposition": Experiment(
        "What changes the likelihood of held-out correct responses, to first order, nats a response and step",
        ("grpo-decompose",),
        {
            "reward": "reward/mean",
            "measured change": "decomposition/held_out_measured",
            "gradients of correct responses": "decomposition/held_out_positives",
            "gradients of incorrect responses": "decomposition/held_out_negatives",
            "momentum of earlier steps": "decomposition/held_out_earlier",
            "higher orders": "decomposition/held_out_remainder",
        },
    ),
    "siblings": Experiment(
        "Responses dealt into minibatches: does a correct response lose by updates on its wrong siblings?",
        ("grpo-split",),
        {
            "reward": "reward/mean",
            "d before its own update, a wrong sibling updated, nats a response": "siblings/lost_after_wrong",
            "d before its own update, none updated, nats a response": "siblings/lost_before_wrong",
            "difference within minibatches, running sum": "sum siblings/lost_within",
        },
    ),
    "unbiased": Experiment(
        "Advantages divided by the unbiased standard deviation of a group, as in the authors' release",
        ("grpo-unbiased", "llds-release-unbiased"),
        _OUTCOME | _ENTROPY | _GRADIENT,
    ),
    "rates": Experiment(
        "Peak rates of the learning rate: at which does the schedule die?",
        ("grpo", "grpo-3e-3", "grpo-5e-3", "grpo-1e-2"),
        _OUTCOME | _ENTROPY | _GRADIENT,
    ),
    "remedies": Experiment(
        "LLDS beside other remedies and controls",
        ("grpo", "llds-0.1", "kl-0.01", "placebo-0.1", "nthr", "ppo", "half-lr", "quarter-lr"),
        _OUTCOME | _ENTROPY | {"gradient norm before clipping, logarithmic": "log grad/norm"},
    ),
}
