"""Build the same model as a GPT2LMHeadModel of transformers: a reference for tests, a peer for benchmarks."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from edgegpt.model import GPT


def gpt2_twin(model: GPT) -> GPT2LMHeadModel:
    """Return a GPT2LMHeadModel in eval mode with copies of the weights; a missing Q/K/V bias is 0."""
    config = model.config
    theirs: GPT2LMHeadModel = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.block_size,
            n_embd=config.n_embd,
            n_layer=config.n_layer,
            n_head=config.n_head,
            activation_function="gelu_new" if config.gelu == "tanh" else "gelu",
            tie_word_embeddings=config.tie_embeddings,
            bos_token_id=0,
            eos_token_id=0,
        )
    ).eval()
    names = {"norm_1": "ln_1", "norm_2": "ln_2", "attn.qkv": "attn.c_attn", "attn.proj": "attn.c_proj"}
    names |= {"mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"}
    state = theirs.state_dict()
    with torch.no_grad():
        for mine, parameter in model.named_parameters():
            if mine.startswith("blocks."):
                _, layer, rest = mine.split(".", 2)
                module, kind = rest.rsplit(".", 1)
                name = f"transformer.h.{layer}.{names[module]}.{kind}"
            else:
                name = {
                    "norm_f.weight": "transformer.ln_f.weight",
                    "norm_f.bias": "transformer.ln_f.bias",
                }.get(mine, "lm_head.weight" if mine == "head.weight" else f"transformer.{mine}")
            # The weight of transformers' Conv1D is (in, out).
            transpose = mine.startswith("blocks.") and parameter.dim() == 2
            state[name].copy_(parameter.T if transpose else parameter)
        if not config.qkv_bias:
            for i in range(config.n_layer):
                state[f"transformer.h.{i}.attn.c_attn.bias"].zero_()
    return theirs
