"""TRL's tool loop and environments with scripted sampling: the calls, the feedback, and the omitted parts."""

from pathlib import Path

import numpy as np
import pytest
import tiny_trl
import torch
import trl
from datasets import Dataset
from packaging.version import Version
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer

from tests.live import PATIENCE_SECONDS
from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.wire import decode_response

pytestmark = [
    pytest.mark.skipif(Version(trl.__version__) < Version("1.16"), reason="written against TRL 1.16's tool loop"),
    pytest.mark.filterwarnings("ignore:You are using 'environment_factory'"),
]

CALL = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'
# The text of each of four responses before a tool has answered.
FIRST = (
    CALL.format("multiply", '{"a": 3, "b": 4}'),
    CALL.format("divide", '{"a": 3, "b": 4}'),
    '<tool_call>\n{"name": "multiply", "argu</tool_call>',
    "it is 12",
)
LAST = "it is 12"
END = "<|im_end|>"


def multiply(a: int, b: int) -> int:
    """Multiply two numbers.

    Args:
        a: One factor.
        b: The other.

    Returns:
        The product.
    """
    return a * b


class Calculator:
    """An environment with one tool, which multiplies."""

    def reset(self, **_):
        """Begin a new episode."""

    def multiply(self, a: int, b: int) -> int:
        """Multiply two numbers.

        Args:
            a: One factor.
            b: The other.

        Returns:
            The product.
        """
        return a * b


class Scripted(GRPOTrainer):
    """A trainer that returns scripted texts instead of sampling; everything else is TRL's."""

    def _generate_single_turn(self, prompt_ids, *_, **__):
        said = []
        for index, prompt in enumerate(prompt_ids):
            is_first = "tool_response" not in self._tokenizer.decode(prompt)
            said.append(self._tokenizer.encode((FIRST[index % 4] if is_first else LAST) + END))
        return said, None


def tokenizer():
    """Return a tokenizer with one token per byte and the tokens of Qwen's template, which TRL contains."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<|endoftext|>", "<|im_start|>", END])
    core.add_tokens([AddedToken(word, special=False) for word in ("<tool_call>", "</tool_call>")])
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja"
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        **dict(zip(("pad_token", "eos_token"), ("<|endoftext|>", END), strict=True)),
        padding_side="left",
        chat_template=template.read_text(),
        model_input_names=["input_ids", "attention_mask"],
    )


def train(folder, callback, *, refusal="", **options):
    """Train one step on one group of four responses; ``refusal`` is put before the chat template."""
    torch.set_num_threads(1)
    set_seed(3)
    words = tokenizer()
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = Qwen2ForCausalLM(
        Qwen2Config(vocab_size=len(words), num_key_value_heads=1, max_position_embeddings=4096, **sizes)
    )
    trainer = Scripted(
        model=model,
        reward_funcs=lambda completions, **_: [float("12" in str(said[-1]["content"])) for said in completions],
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=256,
            max_steps=1,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "3 times 4?"}]}] * 4),
        processing_class=words,
        callbacks=[callback],
        **options,
    )
    words.chat_template = refusal + words.chat_template  # TRL has recognised the template by now
    trainer.train()
    return trainer


@pytest.fixture(params=[{"tools": [multiply]}, {"environment_factory": Calculator}], ids=["tools", "environments"])
def watched(request, tmp_path, connect, steps):
    """Return the trainer and the signals of a step with tools of either kind."""
    monitor = connect()
    trainer = train(tmp_path, VitalsCallback(monitor), **request.param)
    assert monitor.flush(PATIENCE_SECONDS)
    return trainer, steps()[1]


def test_calls_are_counted_with_those_that_could_not_be_read(watched):
    """An answered call, a call to an unknown tool and a call that is not JSON count; one response has no call."""
    trainer, signals = watched
    logged = trainer.state.log_history[0]
    assert (logged["tools/call_frequency"], logged["tools/failure_frequency"]) == (0.5, 0.5)
    assert signals["tools/calls"] == 3 / 4
    assert signals["tools/valid_frac"] == pytest.approx(1 / 3)
    assert signals["tools/empty_frac"] == 0
    assert signals["tools/none_frac"] == 1 / 4


def test_a_tool_that_finds_nothing_is_counted(tmp_path, connect, steps):
    """A call that is answered with an empty list is valid, and empty."""

    def multiply(a: int, b: int) -> list[int]:  # noqa: ARG001 - TRL's signature
        """Look a product up.

        Args:
            a: One factor.
            b: The other.
        """
        return []

    monitor = connect()
    train(tmp_path, VitalsCallback(monitor), tools=[multiply])
    assert monitor.flush(PATIENCE_SECONDS)
    assert (steps()[1]["tools/valid_frac"], steps()[1]["tools/empty_frac"]) == (pytest.approx(1 / 3), 1.0)


def test_what_a_tool_answers_is_no_action(watched):
    """Lengths and actions cover only the script: two responses have a second action, after the feedback."""
    _, signals = watched
    words = tokenizer()
    said = [len(words.encode(text + END)) for text in FIRST]
    again = len(words.encode(LAST + END))
    assert signals["length/mean"] == pytest.approx((sum(said) + 2 * again) / 4, abs=1)
    assert {"likelihood/action0", "likelihood/action1"} <= signals.keys()
    assert "likelihood/action2" not in signals
    assert signals["reward/correct_frac"] == 3 / 4


@pytest.mark.parametrize("kind", [{"tools": [multiply]}, {"environment_factory": Calculator}])
def test_the_mask_of_trl_is_the_one_that_the_chat_template_gives(kind, tmp_path, connect, steps):
    """Turns that the template begins after a tool's answer are the policy's, in TRL's mask and by the tokens alone."""
    monitor = connect()
    train(tmp_path, VitalsCallback(monitor, recompute_every=1, recompute_responses=4), **kind)
    assert monitor.flush(PATIENCE_SECONDS)
    assert steps()[1]["instrument/mask_frac"] == 0
    assert steps()[1]["instrument/logprob_abs"] < 0.05


def test_a_chat_template_that_refuses_our_question_costs_the_comparison_alone(tmp_path, connect, steps, swallowed):
    """The step's tokens are recorded all the same, and the error is counted."""
    monitor = connect()
    refusal = "{%- if messages[0].content == 'a' %}{{ raise_exception('too short') }}{%- endif %}"
    train(tmp_path, VitalsCallback(monitor, recompute_every=1), refusal=refusal, tools=[multiply])
    assert monitor.flush(PATIENCE_SECONDS)
    assert steps()[1]["hooks/internal_errors"] == 1
    assert "length/mean" in steps()[1]
    assert "likelihood/action1" in steps()[1]
    assert "instrument/logprob_abs" not in steps()[1]
    assert [str(error) for error in swallowed] == ["too short"]
    swallowed.clear()


def test_feedback_that_trl_counts_as_the_policys_is_found(tmp_path, connect, steps, monkeypatch):
    """With a mask that leaves no feedback out, the share of wrong tokens is that of the feedback."""
    whole = Scripted._generate_and_score_completions

    def without_tool_mask(trainer, inputs):
        batch = whole(trainer, inputs)
        batch["tool_mask"] = batch["tool_mask"] | 1
        return batch

    monkeypatch.setattr(Scripted, "_generate_and_score_completions", without_tool_mask)
    monitor = connect()
    train(tmp_path, VitalsCallback(monitor, recompute_every=1, recompute_responses=4), tools=[multiply])
    assert monitor.flush(PATIENCE_SECONDS)
    assert steps()[1]["instrument/mask_frac"] > 0.1


def test_a_tool_run_is_announced_at_level_l3(tmp_path, connect, collector):
    """The first record of a run with tools has level L3."""
    monitor = connect()
    train(tmp_path, VitalsCallback(monitor), tools=[multiply])
    assert monitor.flush(PATIENCE_SECONDS)
    assert next(batch for batch in collector.batches if batch.records).capability == "L3"


def test_an_engines_log_probabilities_give_the_mismatch_that_trl_corrects(tmp_path, connect, steps, collector):
    """With TRL's vLLM path and a scripted engine, the mismatch equals TRL's own and does not enter the ratio."""

    class Engine:
        def sync_weights(self):
            """Do nothing: the engine has no weights."""

    def rollout_func(prompts, trainer):  # noqa: ARG001 - TRL's signature
        size = len(prompts)
        return {
            "prompt_ids": [[3, 4]] * size,
            "completion_ids": [[5, 6, 7, 1]] * size,
            "logprobs": [[-1.0, -2.0, float("nan"), -4.0]] * size,
        }

    monitor = connect()
    reward = {"reward": lambda completions, **_: [float(index % 2) for index, _ in enumerate(completions)]}
    trainer = tiny_trl.trainer(
        tmp_path, [VitalsCallback(monitor)], rollout_func=rollout_func, max_steps=1, num_iterations=1, **reward
    )
    trainer.use_vllm, trainer.vllm_generation, trainer._last_loaded_step = True, Engine(), -1
    trainer.train()
    assert monitor.flush(PATIENCE_SECONDS)
    signals, logged = steps()[1], trainer.state.log_history[0]
    assert logged["sampling/importance_sampling_ratio/mean"] > 0
    # TRL leaves the token that the engine did not score out of its mean; so do we, where it counts as no gap.
    assert signals["mismatch/logprob_abs"] == pytest.approx(
        logged["sampling/sampling_logp_difference/mean"] * 3 / 4, rel=1e-3
    )
    (record,) = [record for record in collector.records if record.responses]
    for response in (decode_response(bytes(raw)) for raw in record.responses):
        sampler = response.logprobs.to_numpy() - response.mismatches.to_numpy()
        assert np.allclose(sampler[[0, 1, 3]], [-1.0, -2.0, -4.0], atol=0.01)
        assert response.mismatches.to_numpy()[2] == 0
    assert signals["finite/bad_values"] == 0
    assert signals["trl/sampling/importance_sampling_ratio/mean"] == pytest.approx(
        logged["sampling/importance_sampling_ratio/mean"], rel=1e-5
    )
    assert not [name for name in signals if name.startswith(("ratio/", "displacement/", "lld/"))]
