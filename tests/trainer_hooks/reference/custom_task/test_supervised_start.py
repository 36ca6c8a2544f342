"""The supervised start of a model of one's own: demonstrations of the protocol, and the weights that are kept."""

from dataclasses import replace

import pytest
import torch

from tests.trainer_hooks.reference.custom_task.making import corpus, environment_of, questions
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.supervised_start import demonstrate
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy
from trainer_hooks.reference.run.task_choice import build_policy_and_environment


def test_a_demonstration_searches_with_the_question_and_then_answers(tokenizer):
    """Only the actions are marked; the results of the tool stand between them without a mark."""
    environment = environment_of(tokenizer, corpus())
    for question, shown in zip(questions(), demonstrate(environment, questions()), strict=True):
        actions = [token for token, is_action in zip(shown.tokens, shown.is_action, strict=True) if is_action]
        answer = question.golden_answers[0]
        assert tokenizer.decode(actions) == f"<search>{question.question}</search><answer>{answer}</answer>"
        assert f"is {answer}.</information>" in tokenizer.decode(shown.tokens)


def test_a_demonstration_that_an_action_has_no_room_for_ends_where_the_action_is_cut(tokenizer):
    """The policy learns the part that the episode takes."""
    environment = environment_of(tokenizer, corpus(), max_action_tokens=5)
    (shown,) = demonstrate(environment, questions()[:1])
    assert sum(shown.is_action) == 10


def start(config):
    """Return the reports and the weights of the policy with which a run begins."""
    lines = []
    policy, _ = build_policy_and_environment(config, torch.device("cpu"), report=lines.append)
    return lines, policy.state_dict()


def test_the_protocol_is_learnt_before_the_first_step_and_kept(search_config, tmp_path):
    """The loss falls; a second run reads the same weights; other settings cause a new training."""
    taught = replace(search_config, protocol_steps=60, protocol_lr=1e-2, cache=tmp_path / "cache")
    lines, weights = start(taught)
    losses = [float(line.split("loss ")[1].split()[0]) for line in lines if "loss" in line]
    assert losses[-1] < 0.5 * losses[0]
    lines, again = start(replace(taught, seed=5))
    assert "warm start read from" in lines[-1]
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    lines, other = start(replace(taught, protocol_steps=2))
    assert "warm start read from" not in lines[-1]
    assert not all(torch.equal(weights[name], other[name]) for name in weights)


def test_without_such_steps_a_model_begins_as_it_is(search_config, model_folder):
    """Nothing is trained and no file is written."""
    lines, weights = start(search_config)
    own = HuggingFacePolicy.load(model_folder, context=160).state_dict()
    assert all(torch.equal(weights[name], own[name]) for name in own)
    assert not any("loss" in line for line in lines)
    assert not list(search_config.cache.glob("protocol-*"))


def test_the_built_in_model_has_no_protocol_steps():
    """The message names the setting that it has."""
    with pytest.raises(ValueError, match="the built-in one has warm_steps"):
        Config(protocol_steps=5)


def test_a_protocol_of_two_actions_needs_two(search_config):
    """With one action the answer of a demonstration would come after its end."""
    with pytest.raises(ValueError, match=r"max_actions must be at least 2 with protocol_steps.*, got 1"):
        replace(search_config, protocol_steps=5, max_actions=1)
