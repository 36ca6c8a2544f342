"""Build a random tiny Qwen2, its tokenizer and a TRL run on them; nothing is downloaded."""

import string
import time
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import distributed
from transformers import (
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    set_seed,
)
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

WORDS = ["<pad>", "<eos>", "<unk>", *string.ascii_lowercase, *string.digits]

PROMPTS = Dataset.from_list([{"prompt": " ".join(word)} for word in ("abc", "de", "fghi", "k1")] * 4)


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token for each letter or digit."""
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=WORDS[2]))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    padding, end, unknown = WORDS[:3]
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=padding,
        eos_token=end,
        unk_token=unknown,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def model(folder: Path) -> Qwen2ForCausalLM:
    """Return a random model of one layer, 16 wide, loaded from a folder, where TRL looks for the reference model."""
    torch.manual_seed(5)  # its first rollouts have equal rewards, and responses whose likelihood falls
    fresh = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )
    complete = folder / "complete"
    # In a process group, transformers lets only rank 0 save.
    if not complete.exists() and not (distributed.is_initialized() and distributed.get_rank()):
        fresh.save_pretrained(folder)
        complete.touch()
    while not complete.exists():
        time.sleep(0.05)
    return Qwen2ForCausalLM.from_pretrained(folder)


def mixture_of_experts(_: Path) -> MixtralForCausalLM:
    """Return a Mixtral of the same size, with four experts of which each token uses two."""
    torch.manual_seed(0)
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )


def share_of_vowels(completions, **_):
    """Return as reward the share of vowels minus 0.5."""
    return [sum(word in "aeiou" for word in text.split()) / 12 - 0.1 for text in completions]


def trainer(
    folder: Path,
    callbacks=(),
    *,
    kind=GRPOTrainer,
    reward=share_of_vowels,
    config_of=None,
    rollout_func=None,
    model_of=None,
    **options,
):
    """Return a trainer for a few small steps; options go to its configuration."""
    torch.set_num_threads(1)
    settings = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "gradient_checkpointing": False,
        "max_completion_length": 12,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 3,
    } | options
    config_of = config_of or (RLOOConfig if kind is RLOOTrainer else GRPOConfig)
    set_seed(3)
    return kind(
        model=(model_of or model)(folder / "model"),
        reward_funcs=reward,
        args=config_of(**settings),
        train_dataset=PROMPTS,
        eval_dataset=PROMPTS.select(range(4)),
        processing_class=tokenizer(),
        callbacks=list(callbacks),
        **({"rollout_func": rollout_func} if rollout_func else {}),
    )


class Fused(GRPOTrainer):
    """A trainer whose loss never calls the scorer."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # noqa: ARG002, FBT002 - TRL's
        """Return a loss without a gradient."""
        return sum(weight.sum() for weight in model.parameters()) * 0.0


def weights(done) -> bytes:
    """Return all weights as bytes, in order."""
    return b"".join(value.detach().cpu().numpy().tobytes() for _, value in sorted(done.model.state_dict().items()))


def vector(done) -> torch.Tensor:
    """Return all weights as one vector."""
    return torch.nn.utils.parameters_to_vector(done.model.parameters()).detach()
