"""Loads, checks and combines your own model, questions and search tool."""

from collections.abc import Callable
from pathlib import Path

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.bm25 import Bm25Corpus
from trainer_hooks.reference.custom_task.environment import PROMPT, SearchEnvironment
from trainer_hooks.reference.custom_task.questions import read_questions
from trainer_hooks.reference.custom_task.server import RetrievalServer
from trainer_hooks.reference.custom_task.supervised_start import teach_protocol
from trainer_hooks.reference.custom_task.tool import SearchTool, ToolError, within
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy, load_tokenizer

__all__ = ["build_search_policy_and_environment"]


def build_search_policy_and_environment(
    config: Config, device: torch.device, *, report: Callable[[str], None]
) -> tuple[HuggingFacePolicy, SearchEnvironment]:
    """Build what ``--model``, ``--questions`` and ``--corpus`` or ``--retriever`` name, the policy on its device.

    Raises:
        ValueError: If one of them cannot be used; the message names it and the reason.
    """
    if config.model is None or config.questions is None:
        raise ValueError("a model of your own needs model and questions")
    questions = read_questions(config.questions)
    tool = _tool(config, questions[0].question)
    policy = HuggingFacePolicy.load(config.model, context=config.context, precision=config.precision)
    tokenizer = load_tokenizer(config.model)
    environment = SearchEnvironment(
        questions,
        tool,
        tokenizer,
        context=config.context,
        max_actions=config.max_actions,
        max_action_tokens=config.max_action_tokens,
        max_feedback_tokens=config.max_feedback_tokens,
        tool_seconds=config.tool_timeout,
        prompt=PROMPT if config.prompt is None else _text(config.prompt),
    )
    if max(*environment.episode(questions[0]).prompt, tokenizer.eos_token_id) >= policy.vocabulary:
        raise ValueError(
            f"the tokenizer in {config.model} must be the model's, got tokens beyond the model's {policy.vocabulary}"
        )
    if len(environment.questions) < config.questions_per_step:
        raise ValueError(
            f"{config.questions} must hold at least questions_per_step ({config.questions_per_step}) questions besides "
            f"the held-out tenth, got {len(environment.questions)}"
        )
    size = sum(weight.numel() for weight in policy.parameters())
    report(f"model {config.model}: {size:,} weights; {len(environment.questions)} questions to train on")
    policy.to(device)
    if config.protocol_steps:
        teach_protocol(policy, environment, config, report=report)
    return policy, environment


def _tool(config: Config, question: str) -> SearchTool:
    """Build the search tool and try it once, so that a tool that is down is found before the weights are loaded."""
    if config.corpus is not None:
        return Bm25Corpus.from_file(config.corpus, topk=config.topk)
    tool = RetrievalServer(config.retriever or "", topk=config.topk, timeout_seconds=config.tool_timeout / 5)
    try:
        within(config.tool_timeout, lambda: tool.search([question]))
    except ToolError as error:
        raise ValueError(str(error)) from error
    return tool


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable UTF-8 file: {error}") from error
