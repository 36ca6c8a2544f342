# ruff: noqa: RUF009 - `_option` returns a dataclass field, so its call in a default is correct
"""Every setting of the reference trainer with its meaning, and what follows from several of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trainer_hooks.reference.methods import METHODS, LossMethod, MethodName

__all__ = ["ConfigFields", "Device", "MatmulPrecision", "OldLogprobs", "OnAcceleration", "Precision", "ProbeOptimiser"]

Precision = Literal["float32", "bfloat16"]
"""The type of a model's weights; log-probabilities and entropies are float32 either way."""

MatmulPrecision = Literal["highest", "high", "medium"]
"""The precision of products of float32 matrices, by torch's names."""

OnAcceleration = Literal["none", "stop", "rollback", "rollback+llds", "fork"]
"""The reaction of the trainer when the collector reports phase III or a collapse."""

Device = Literal["auto", "cpu", "cuda"]

OldLogprobs = Literal["recomputed", "sampler"]
"""Which distribution π_old is: the policy that sampled, or that policy at the sampling temperature and top-p."""

ProbeOptimiser = Literal["fresh", "run"]
"""Whether a probe's update starts from empty moments or from those of the run."""


def _option(default: Any, text: str) -> Any:  # noqa: ANN401 - a field of any type
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class ConfigFields:
    """Settings of one run, as `Config` checks them.

    Everything random derives from ``seed``, except the environment and the warm start.
    """

    steps: int = _option(200, "rollout batches to train on")
    seed: int = _option(0, "seed of questions, sampling and minibatches")
    # The objective.
    lr: float = _option(6e-4, "learning rate of AdamW")
    lr_warmup: int = _option(0, "steps over which the learning rate rises linearly to lr; 0: constant learning rate")
    method: MethodName = _option(
        "grpo",
        "what is optimised: grpo; with a penalty on lost likelihood: lld (eq. 4), llds (eq. 5), llds-action (the gate "
        "of v2), llds-release (the authors' release: that gate, divided by all tokens), llds-release-response (the "
        "same with the gate of eq. 5), llds-ma and llds-ma-action (eq. 6: less or no penalty on answers); nthr; ppo, "
        "with a critic; placebo, plain likelihood where llds has its penalty; kl-cov, stare and acpo, remedies of "
        "related work",
    )
    lambda_: float | None = _option(
        None,
        "weight of the penalty, where the method has one (eq. 7); default: 0.1, 0.2 of llds-release and "
        "llds-release-response, 1 of kl-cov",
    )
    answer_weight: float = _option(0.0, "factor on the penalty of answer tokens under llds-ma; 0 gives eq. 6")
    answer_adaptive: bool = _option(
        False,
        "multiply answer_weight by the mean number of valid searches per response beyond the first, as the authors' "
        "release does",
    )
    kl: float = _option(0.0, "weight of the KL divergence to the warm start (k3 estimator)")
    entropy_bonus: float = _option(0.0, "weight of the mean entropy of action tokens, which the loss rewards")
    weight_decay: float = _option(0.0, "weight decay of AdamW")
    clip: float = _option(0.2, "ε of the clipped ratio")
    clip_high: float | None = _option(
        None, "ε of the upper bound of the ratio, if it differs from clip: 0.28 is DAPO's clip-higher"
    )
    covariance_share: float = _option(2e-3, "share of the tokens that kl-cov holds near the old policy")
    target_entropy: float = _option(0.3, "mean entropy in nats below which stare acts")
    critic_lr: float = _option(1e-3, "learning rate of the critic (ppo)")
    discount: float = _option(1.0, "γ of the advantage estimator (ppo)")
    gae_lambda: float = _option(1.0, "λ of the advantage estimator (ppo): 1 trusts rewards, 0 the critic")
    max_grad_norm: float = _option(1.0, "gradients are scaled down to this norm; 0: no limit")
    # The batch.
    questions_per_step: int = _option(8, "questions in a rollout batch")
    group_size: int = _option(8, "responses that are sampled for each question")
    minibatches: int = _option(8, "optimiser steps in one pass over a rollout batch")
    epochs: int = _option(2, "passes over a rollout batch")
    unbiased_std: bool = _option(
        False,
        "divide advantages by the unbiased standard deviation of a group, as the authors' release does, and not by "
        "that of the population; those of ppo have no group",
    )
    split_groups: bool = _option(
        False, "divide responses and not groups among the minibatches, in a single process, and measure the effect"
    )
    temperature: float = _option(1.0, "sampling temperature")
    top_p: float = _option(1.0, "mass of the most probable tokens that are sampled from, in (0, 1]")
    old_logprobs: OldLogprobs = _option(
        "recomputed",
        "denominator of the ratio: recomputed by the policy, or as the sampler gave it if the sampler differs",
    )
    held_out: int = _option(16, "fresh responses a step that are measured and never trained on")
    lld_epsilon: float = _option(
        0.0, "ε of Def. 4.1 in nats: a response is displaced if its ln π rises by at most this"
    )
    probe_every: int = _option(0, "steps between probes of each question's own update (eq. 3, eq. 9); 0: no probes")
    probe_optimiser: ProbeOptimiser = _option(
        "fresh", "optimiser of a probe's update: fresh has no moments, run has the moments of the updates of the run"
    )
    probe_sweep: bool = _option(False, "repeat each probe at 2, 4, 8 and 16 times the learning rate")
    decompose_every: int = _option(
        0, "steps between decompositions of the updates by their causes, in a single process; 0: none"
    )
    recompute_every: int = _option(
        0, "steps between recomputations of the numbers of a few responses by other code, before the updates; 0: none"
    )
    recompute_responses: int = _option(2, "responses of a process that are recomputed at a time")
    # The environment.
    world_seed: int = _option(12345, "seed of the facts")
    entities: int = _option(96, "entities in the environment")
    train_questions: int = _option(400, "questions to train on")
    long_form: float = _option(
        0.3, "share of questions whose answer needs the family name too; nothing in the question shows which"
    )
    max_actions: int = _option(4, "actions in a response")
    max_action_tokens: int = _option(28, "tokens in an action; one that has not ended by then is invalid")
    thought_words: int = _option(0, "mean number of words of free-form text at the beginning of every thought")
    thought_choices: int = _option(4, "words that may follow each word of that text: 2 is 0.7 nats a word, 4 is 1.4")
    wrong_thought_factor: float = _option(
        1.0, "factor on the length of the first thought of a flawed demonstration of the warm start"
    )
    retry: bool = _option(True, "a wrong answer gets feedback and the episode goes on; the first answer counts")
    # Your own model and data, in place of the built-in ones.
    model: Path | None = _option(
        None, "folder of a Hugging Face causal language model with its tokenizer, or a GGUF file that holds both"
    )
    precision: Precision = _option("float32", "type of the weights of --model")
    questions: Path | None = _option(None, "question set, JSON lines with question and golden_answers or answer")
    prompt: Path | None = _option(None, "text file of the prompt; {question} stands for the question")
    corpus: Path | None = _option(None, "passages to search by BM25, JSON lines with contents")
    retriever: str | None = _option(None, "address of a retrieval server that answers POST /retrieve as Search-R1's")
    topk: int = _option(3, "passages that a search returns")
    max_feedback_tokens: int = _option(500, "largest number of tokens of the feedback of a search; the rest is cut off")
    protocol_steps: int = _option(
        0, "supervised steps in which --model first learns to search with the question and then to answer; 0: none"
    )
    protocol_lr: float = _option(2e-5, "highest learning rate of the protocol_steps")
    tool_timeout: float = _option(60.0, "seconds within which the search tool must answer a batch of queries")
    # The built-in model and its warm start.
    width: int = _option(64, "width of the transformer")
    layers: int = _option(2, "layers of the transformer")
    heads: int = _option(4, "attention heads")
    context: int = _option(144, "largest number of tokens of a response, with its prompt and feedback")
    warm_steps: int = _option(900, "supervised steps of the warm start")
    warm_lr: float = _option(3e-3, "learning rate of the warm start, falling to zero")
    cache: Path = _option(Path(".rlvitals"), "folder that keeps warm starts, so that a second run starts at once")
    # Telemetry.
    url: str | None = _option(None, "address of a collector to stream to; default: RLVITALS_URL, or none")
    project: str = _option("reference", "project under which the run appears")
    run: str | None = _option(None, "name of the run; default: made from method, λ and seed")
    log: Path | None = _option(
        None,
        "file to append each step's numbers to, one JSON object a line; NaN and Infinity, which strict readers refuse, "
        "are written as such",
    )
    texts: bool = _option(False, "also send the texts of sampled responses, if the environment has its own words")
    # Checkpoints, and what to do when the collector reports a collapse.
    checkpoints: Path | None = _option(None, "folder of checkpoints; default: under the cache, by the run's name")
    checkpoint_every: int = _option(0, "steps between checkpoints; 0 keeps none")
    resume: bool = _option(False, "continue from the newest checkpoint, bit for bit")
    on_acceleration: OnAcceleration = _option(
        "none",
        "what to do when the collector reports acceleration or collapse; fork tries treatments from the last healthy "
        "checkpoint and goes on with the best, in a single process",
    )
    rollback_lr: float = _option(
        1.0, "factor on the learning rate at each rollback; at 1 the run may collapse again in the same way"
    )
    max_rollbacks: int = _option(3, "after this many rollbacks a collapsing run is stopped")
    fork_steps: int = _option(
        30, "steps that each fork trains; more if the run is further than this from its checkpoint"
    )
    fork_questions: int = _option(128, "held-out questions by which forks are compared")
    # The machine.
    threads: int = _option(1, "torch threads")
    matmul_precision: MatmulPrecision = _option(
        "highest",
        "precision of products of float32 matrices, as in torch: high allows TF32 on a GPU, and medium also bfloat16, "
        "which some CPUs have",
    )
    device: Device = _option("auto", "device of the model: cpu, cuda, or auto (a GPU if there is one)")

    @property
    def optimises(self) -> LossMethod:
        """The terms that the method adds to the clipped objective."""
        return METHODS[self.method]

    @property
    def llds_weight(self) -> float:
        """λ of the likelihood-preserving penalty; 0 where the method has none."""
        return self._weight if self.optimises.gate is not None else 0.0

    @property
    def placebo_weight(self) -> float:
        """λ of plain likelihood; 0 where the method is not the placebo."""
        return self._weight if self.optimises.is_placebo else 0.0

    @property
    def covariance_weight(self) -> float:
        """β of the KL penalty of KL-Cov; 0 for any other method."""
        return self._weight if self.optimises.holds_covariance else 0.0

    @property
    def clip_range(self) -> tuple[float, float]:
        """ε below one and ε above one."""
        return self.clip, self.clip if self.clip_high is None else self.clip_high

    @property
    def reported_clip(self) -> tuple[float, float] | None:
        """ε below and above one for the telemetry; None where no two numbers in the range of `Rollouts` describe it."""
        is_fixed = not (self.optimises.adapts_clip or self.optimises.holds_covariance)
        # An ε from 1 on clips nothing below, and `Rollouts` refuses it.
        return self.clip_range if is_fixed and self.clip < 1 else None

    @property
    def _weight(self) -> float:
        return self.optimises.weight if self.lambda_ is None else self.lambda_

    @property
    def is_llds_inert(self) -> bool:
        """Whether LLDS is on, or may be turned on by a rollback, and can do nothing."""
        return self.is_at_old_policy and (self.llds_weight > 0 or self.on_acceleration == "rollback+llds")

    @property
    def is_at_old_policy(self) -> bool:
        """Whether the only update of a batch is taken at θ = θ_old: every ratio is 1, so LLDS and clips do nothing."""
        is_sampler = self.temperature == self.top_p == 1.0
        return self.minibatches * self.epochs == 1 and (self.old_logprobs == "recomputed" or is_sampler)

    @property
    def run_name(self) -> str:
        """The name of the run."""
        weight = f"-{self._weight:g}" if self.optimises.has_weight else ""
        return self.run or f"{self.method}{weight}-seed{self.seed}"

    @property
    def checkpoint_folder(self) -> Path:
        """The folder of the run's checkpoints."""
        return self.checkpoints or self.cache / "checkpoints" / self.run_name
