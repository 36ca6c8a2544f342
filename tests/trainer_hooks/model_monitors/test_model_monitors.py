import copy
import math

import numpy as np
import pytest
import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Llama4ForCausalLM,
    Llama4TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

import trainer_hooks
from trainer_hooks.model_monitors import ModelMonitors

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
DENSE = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
EXPERTS = {
    "mixtral": lambda: MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=5, num_experts_per_tok=2)),
    "qwen3": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**SIZES, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=8)
    ),
}


def dense(name):
    """Build a random tiny model."""
    torch.manual_seed(0)
    config, model = DENSE[name]
    return model(config(**SIZES)).train()


def train_a_step(model, monitors=None, *, step=1, lr=0.1):
    """Make one update on random tokens, where the last three of the first row are padding; return the signals."""
    torch.manual_seed(step)
    tokens = torch.randint(3, 40, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, -3:] = 0
    if monitors is not None:
        monitors.begin_step(step)
    model.zero_grad()
    model(input_ids=tokens, attention_mask=mask, labels=tokens).loss.backward()
    if monitors is not None:
        monitors.measure_gradients()
    with torch.no_grad():
        for weight in model.parameters():
            weight.sub_(lr * weight.grad)
    return monitors.end_step() if monitors is not None else {}


def watched(model, **options):
    """Attach monitors to a model."""
    monitors = ModelMonitors(model, **options)
    monitors.attach()
    return monitors


def spectrum_entropy(matrix):
    """Compute the spectral entropy by its definition, from the whole matrix."""
    energies = np.linalg.svd(matrix, compute_uv=False) ** 2
    shares = energies / energies.sum()
    return -sum(share * math.log(share) for share in shares if share > 1e-14)


def bilinear_forms(model):
    """Return W_qᵀ W_k of each query head, hidden × hidden, written out."""
    for layer in model.model.layers:
        attention = layer.self_attn
        query = attention.q_proj.weight.detach().double().numpy().copy()
        key = attention.k_proj.weight.detach().double().numpy().copy()
        size = attention.head_dim
        for head in range(4):
            shared = head // 2
            yield query[head * size : (head + 1) * size], key[shared * size : (shared + 1) * size]


@pytest.mark.parametrize("name", DENSE)
def test_spectral_entropy_is_that_of_the_whole_query_key_matrix(name):
    """Mean and minimum over heads equal those of a singular value decomposition of each hidden × hidden product."""
    model = dense(name)
    signals = train_a_step(model, watched(model))
    expected = [spectrum_entropy(query.T @ key) for query, key in bilinear_forms(model)]
    assert len(expected) == 8
    assert signals["qk/spectral_entropy"] == pytest.approx(np.mean(expected), rel=1e-6)
    assert signals["qk/spectral_entropy_min"] == pytest.approx(min(expected), rel=1e-6)


@pytest.mark.parametrize("lr", [0.1, 1e-5])
def test_the_updates_first_order_term_is_the_one_written_out(lr):
    """The entropy equals that of ΔW_qᵀ W_k + W_qᵀ ΔW_k, also where the change is a millionth of the weights."""
    model = dense("qwen2").double()
    begun = list(bilinear_forms(model))
    signals = train_a_step(model, watched(model, attention_update=True), lr=lr)
    expected = [
        spectrum_entropy((query - query0).T @ key0 + query0.T @ (key - key0))
        for (query0, key0), (query, key) in zip(begun, bilinear_forms(model), strict=True)
    ]
    assert signals["qk/update_spectral_entropy"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_without_an_update_there_is_no_entropy_of_it():
    """The signal of the update is absent, and not NaN, where no weight has changed."""
    model = dense("llama")
    signals = train_a_step(model, watched(model, attention_update=True), lr=0.0)
    assert "qk/update_spectral_entropy" not in signals
    assert all(math.isfinite(value) for value in signals.values())


def test_a_head_that_keeps_one_direction_has_no_spectral_entropy():
    """The entropy is ln d where all d directions have equal weight, and 0 where the rank is one."""
    model = dense("llama")
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.copy_(torch.eye(32))
            layer.self_attn.k_proj.weight.copy_(torch.eye(32)[:16])
    monitors = watched(model, gradients=False)
    monitors.begin_step(1)
    assert monitors.end_step()["qk/spectral_entropy"] == pytest.approx(math.log(8), rel=1e-6)
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[1:8] = 0
    monitors.begin_step(50)
    signals = monitors.end_step()
    assert signals["qk/spectral_entropy_min"] == pytest.approx(0, abs=1e-6)
    assert signals["qk/spectral_entropy"] == pytest.approx(math.log(8) * 7 / 8, rel=1e-6)


def test_weights_of_nan_are_reported_and_raise_nothing():
    """A head of NaN makes the mean NaN."""
    model = dense("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight[0, 0] = math.nan
    monitors = watched(model, gradients=False)
    monitors.begin_step(1)
    assert math.isnan(monitors.end_step()["qk/spectral_entropy"])


@pytest.mark.parametrize("name", EXPERTS)
def test_router_signals_are_those_of_the_routers_own_logits(name):
    """Load, first choices and entropy equal counts over the model's router logits, without padding."""
    torch.manual_seed(0)
    model = EXPERTS[name]().train()
    torch.manual_seed(1)
    tokens = torch.randint(3, 40, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, -3:] = 0
    with torch.no_grad():
        layers = model(input_ids=tokens, attention_mask=mask, output_router_logits=True).router_logits
    real = mask.flatten().bool().numpy()
    loads, tops, entropies = [], [], []
    for logits in layers:
        kept = logits.double().numpy()[real]
        assert kept.shape == (15, 5)
        chosen = np.argsort(-kept, axis=1)
        load = np.bincount(chosen[:, :2].ravel(), minlength=5) / 30
        loads.append(-sum(share * math.log(share) for share in load if share))
        tops.append(np.bincount(chosen[:, 0], minlength=5).max() / 15)
        shares = np.exp(kept) / np.exp(kept).sum(axis=1, keepdims=True)
        entropies.append(-(shares * np.log(shares)).sum(axis=1).mean())
    signals = train_a_step(model, watched(model))
    assert signals["moe/load_entropy"] == pytest.approx(np.mean(loads), rel=1e-5)
    assert signals["moe/load_entropy_min"] == pytest.approx(min(loads), rel=1e-5)
    assert signals["moe/top1_share"] == pytest.approx(np.mean(tops), rel=1e-5)
    assert signals["moe/top1_share_max"] == pytest.approx(max(tops), rel=1e-5)
    assert signals["moe/router_entropy"] == pytest.approx(np.mean(entropies), rel=1e-5)


def test_microbatches_of_a_step_are_counted_together_and_scoring_without_gradients_is_not():
    """Two equal passes give the same signals as one, and a pass without gradients changes nothing."""
    torch.manual_seed(0)
    model = EXPERTS["mixtral"]().train()
    monitors = watched(model, gradients=False, attention=False)
    tokens = torch.randint(3, 40, (2, 9))
    found = []
    for passes in (1, 2):
        monitors.begin_step(50)
        for _ in range(passes):
            model(input_ids=tokens)
        with torch.no_grad():
            model(input_ids=torch.full((2, 9), 7))
        found.append(monitors.end_step())
    assert found[0] == pytest.approx(found[1])


def routed(gate):
    """Set a gate's preference for three experts at four tokens; return the signals of its block."""
    block = torch.nn.Module()
    block.gate, block.experts, block.top_k = gate, torch.nn.ModuleList(), 1
    monitors = watched(block.train(), gradients=False)
    monitors.begin_step(1)
    gate(torch.eye(4)[[0, 0, 1, 0]])
    return monitors.end_step()


class Linear(torch.nn.Linear):
    """A gate that returns only logits, as in transformers 4."""

    def __init__(self):
        super().__init__(4, 3, bias=False)
        self.weight = torch.nn.Parameter(torch.eye(4)[:3])


def test_a_router_that_gives_logits_alone_is_read_too():
    """The block's top k is used where the gate is a linear layer, as in transformers 4."""
    signals = routed(Linear())
    assert signals["moe/top1_share"] == 0.75
    assert signals["moe/load_entropy"] == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))


def test_a_router_that_gives_probabilities_has_their_entropy():
    """Probabilities in the place of the logits, as in transformers 5.0, give the same signals."""

    class Softmaxed(Linear):
        def forward(self, hidden):
            shares = super().forward(hidden).softmax(dim=-1)
            return shares, *shares.topk(1)

    assert routed(Softmaxed()) == pytest.approx(routed(Linear()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_layers_on_several_devices_have_the_signals_of_layers_on_one():
    """A model may be divided over devices; numbers of two devices cannot be stacked."""
    found = []
    for device in ("cpu", "cuda"):
        model = torch.nn.Module()
        for name, place in (("first", "cpu"), ("second", device)):
            block = torch.nn.Module()
            block.gate, block.experts, block.top_k = Linear().to(place), torch.nn.ModuleList(), 1
            model.add_module(name, block)
        monitors = watched(model.train(), gradients=False)
        monitors.begin_step(1)
        model.first.gate(torch.eye(4)[[0, 0, 1, 0]])
        model.second.gate(torch.eye(4, device=device)[[0, 1, 1, 2]])
        found.append(monitors.end_step())
    assert found[0] == pytest.approx(found[1])


def test_an_error_in_a_hook_ends_no_forward_pass():
    """An error in a hook does not reach the forward pass; it is raised when the signals are requested."""

    class Changing(Linear):
        experts = 4

        def forward(self, hidden):
            self.experts -= 1
            return super().forward(hidden)[:, : self.experts]

    block = torch.nn.Module()
    block.gate, block.experts, block.top_k = Changing(), torch.nn.ModuleList(), 1
    monitors = watched(block.train(), gradients=False)
    monitors.begin_step(1)
    for _ in range(2):
        assert block.gate(torch.eye(4)).shape[0] == 4
    with pytest.raises(RuntimeError, match="size"):
        monitors.end_step()
    assert not hooks(block)


@pytest.mark.parametrize("dropped", ["choices first", "scores first", "choices second", "two experts of one"])
def test_of_a_router_in_an_unknown_order_nothing_is_reported(dropped):
    """Outputs in another order, as of DeepSeek and gpt-oss in transformers 4 and of Llama 4, are not observed."""

    class Strange(Linear):
        def forward(self, hidden):
            logits = super().forward(hidden)
            weights, choices = logits.topk(1)
            return {
                "choices first": (choices, weights),
                "scores first": (logits.sigmoid(), logits),
                "choices second": (logits, choices),
                "two experts of one": logits[:, :0],
            }[dropped]

    assert routed(Strange()) == {}


def test_router_entropy_of_deepseek_is_that_of_its_logits():
    """The entropy is that of the logits' softmax, although groups and sigmoid scores choose the experts."""
    torch.manual_seed(0)
    sizes = SIZES | {"num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4}
    sizes |= {"qk_nope_head_dim": 4, "v_head_dim": 8, "moe_intermediate_size": 16, "n_routed_experts": 8}
    config = DeepseekV3Config(**sizes, n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=0)
    model = DeepseekV3ForCausalLM(config).train()
    seen = []
    for layer in model.model.layers:
        layer.mlp.gate.weight.data.mul_(60)
        layer.mlp.gate.register_forward_pre_hook(
            lambda gate, hidden: seen.append(hidden[0].flatten(0, 1) @ gate.weight.T)
        )
    monitors = watched(model, gradients=False)
    monitors.begin_step(1)
    model(input_ids=torch.randint(3, 40, (2, 9)))
    entropies = [torch.distributions.Categorical(logits=logits).entropy().mean() for logits in seen]
    assert len(entropies) == 2
    assert monitors.end_step()["moe/router_entropy"] == pytest.approx(torch.stack(entropies).mean().item(), rel=1e-5)


def test_of_llama_4_no_router_entropy_is_reported():
    """Llama 4's routers are not observed, because they return scores; its attention is measured."""
    torch.manual_seed(0)
    config = Llama4TextConfig(**SIZES, intermediate_size_mlp=48, head_dim=8, num_local_experts=4, num_experts_per_tok=1)
    model = Llama4ForCausalLM(config).train()
    signals = train_a_step(model, watched(model, gradients=False))
    assert signals.keys() == {"qk/spectral_entropy", "qk/spectral_entropy_min"}


def test_a_query_projection_that_holds_a_gate_too_is_not_looked_at():
    """Qwen3-Next's attention is not observed, because its projection also holds a gate; its routers are measured."""
    torch.manual_seed(0)
    linear = {f"linear_{part}": 8 for part in ("key_head_dim", "value_head_dim")}
    linear |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "layer_types": ["full_attention"] * 2}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    config = Qwen3NextConfig(**SIZES, **linear, **experts, head_dim=8, shared_expert_intermediate_size=16)
    model = Qwen3NextForCausalLM(config).train()
    signals = train_a_step(model, watched(model, gradients=False, attention_update=True))
    assert signals
    assert {name.partition("/")[0] for name in signals} == {"moe"}


@pytest.mark.parametrize("name", [*DENSE, *EXPERTS])
def test_module_norms_are_those_of_their_gradients(name):
    """The norms cover each block's attention and feed-forward part, the embedding and the head, also under PEFT."""
    model = dense(name) if name in DENSE else EXPERTS[name]().train()
    adapted = torch.nn.ModuleDict({"base_model": torch.nn.ModuleDict({"model": model})})  # as PEFT wraps a model
    looked_at = adapted if name in DENSE else model
    signals = train_a_step(model, watched(looked_at, attention=False, routers=False))
    parts = [f"model.layers.{layer}.{child}" for layer in (0, 1) for child in ("self_attn", "mlp")]
    assert signals.keys() == {f"grad/norm/{part}" for part in [*parts, "model.embed_tokens", "lm_head"]}
    for part in [*parts, "lm_head"]:
        squares = sum(weight.grad.double().square().sum() for weight in model.get_submodule(part).parameters())
        assert signals[f"grad/norm/{part}"] == pytest.approx(math.sqrt(squares), rel=1e-5)


def test_only_every_nth_step_is_measured_and_hooks_are_there_only_then():
    """The first step and the multiples of `every` are measured, and no hook is left on any module."""
    torch.manual_seed(0)
    model = EXPERTS["mixtral"]().train()
    monitors = watched(model, every=3)
    measured = {step for step in range(1, 8) if train_a_step(model, monitors, step=step)}
    assert measured == {1, 3, 6}
    monitors.begin_step(9)
    assert hooks(model)
    monitors.remove()
    assert not hooks(model)


def test_a_model_can_be_saved_and_copied_in_a_step_that_is_measured(tmp_path):
    """Computations of the copies are not counted, and reading the file needs no code of rlvitals."""
    torch.manual_seed(0)
    model = EXPERTS["mixtral"]().train()
    monitors = watched(model, gradients=False)
    monitors.begin_step(1)
    copied = copy.deepcopy(model)
    torch.save(model, tmp_path / "model.pt")
    assert b"trainer_hooks" not in (tmp_path / "model.pt").read_bytes()
    for each in (copied, torch.load(tmp_path / "model.pt", weights_only=False)):
        each(input_ids=torch.randint(3, 40, (2, 9)))
    assert not [name for name in monitors.end_step() if name.startswith("moe/")]
    assert not hooks(model)


def hooks(model):
    """Return the modules that have a forward hook."""
    return [module for module in model.modules() if module._forward_hooks or module._forward_pre_hooks]


@pytest.mark.parametrize("name", [*DENSE, *EXPERTS])
def test_weights_are_the_same_to_the_last_bit_with_and_without(name):
    """Five measured steps end in the weights and random generators of five steps without measurements."""

    def trained(**options):
        torch.manual_seed(0)
        model = dense(name) if name in DENSE else EXPERTS[name]().train()
        if name == "llama":  # a read of this weight would iterate
            torch.nn.utils.parametrizations.spectral_norm(model.model.layers[0].self_attn.q_proj)
        monitors = watched(model, every=1, attention_update=True) if options else None
        for step in range(1, 6):
            train_a_step(model, monitors, step=step)
        state = torch.get_rng_state()
        return b"".join(weight.detach().numpy().tobytes() for weight in model.parameters()), state

    (alone, before), (looked_into, after) = trained(), trained(watched=True)
    assert alone == looked_into
    assert torch.equal(before, after)


def test_what_cannot_work_is_reported_at_once():
    """A missing model and a step interval below 1 are refused."""
    with pytest.raises(trainer_hooks.ConfigurationError, match="every must be at least 1"):
        ModelMonitors(every=0)
    with pytest.raises(trainer_hooks.ConfigurationError, match="need its model"):
        ModelMonitors().attach()
