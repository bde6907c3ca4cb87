"""GPT in PyTorch.

Pre-LN decoder-only transformer after Radford et al., "Language Models are Unsupervised Multitask
Learners" (2019). Shapes: B batch, T new tokens, P cached tokens, D n_embd, V vocab_size.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from edgegpt.config import ModelConfig

KeyValue = tuple[Tensor, Tensor]  # keys and values of one layer, each (B, n_kv_head, P, head_dim)


class CausalSelfAttention(nn.Module):
    """Multi-head attention of each token to itself and to earlier tokens."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.head_dim = config.head_dim
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.qkv_bias)
        self.proj = nn.Linear(config.n_embd, config.n_embd)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        """Attend: (B, T, D) and mask (T, P + T), true where attended -> (B, T, D) and the new cache."""
        batch, new, width = x.shape
        # (B, T, 3D) -> 3 x (B, n_head, T, head_dim)
        qkv = self.qkv(x).view(batch, new, 3, self.n_head, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)  # (B, n_head, P + T, head_dim)
            v = torch.cat((past[1], v), dim=2)
        # Written out: for the short contexts of small models on a CPU this trains 1.7x as fast as
        # F.scaled_dot_product_attention, whose backward pass is slow there.
        scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)  # (B, n_head, T, P + T)
        weights = F.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
        y = self.drop(weights) @ v  # (B, n_head, T, head_dim)
        return self.proj(y.transpose(1, 2).reshape(batch, new, width)), (k, v)


class MLP(nn.Module):
    """Position-wise feed-forward network with an inner width of 4 D."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.approximate = "tanh" if config.gelu == "tanh" else "none"
        self.fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x: Tensor) -> Tensor:
        """Apply to (B, T, D) -> (B, T, D)."""
        hidden: Tensor = F.gelu(self.fc(x), approximate=self.approximate)  # (B, T, 4D)
        y: Tensor = self.proj(hidden)
        return y


class Block(nn.Module):
    """x + drop(attn(norm_1(x))), then x + drop(mlp(norm_2(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.norm_2 = nn.LayerNorm(config.n_embd)
        self.mlp = MLP(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, past: KeyValue | None) -> tuple[Tensor, KeyValue]:
        """Apply to (B, T, D) -> (B, T, D) and the layer's new cache."""
        y, present = self.attn(self.norm_1(x), mask, past)
        x = x + self.drop(y)
        x = x + self.drop(self.mlp(self.norm_2(x)))
        return x, present


class GPT(nn.Module):
    """Embeddings, blocks, final norm and head. `gradient_checkpointing` trades time for memory."""

    def __init__(self, config: ModelConfig, *, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.config = config
        self.gradient_checkpointing = gradient_checkpointing
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.norm_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.wte.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights as GPT-2 does: N(0, 0.02), with a smaller std into the residual stream."""
        residual_std = 0.02 / math.sqrt(2 * self.config.n_layer)  # two additions a block
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                std = residual_std if name.endswith(".proj") else 0.02
                nn.init.normal_(module.weight, mean=0.0, std=std)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, input_ids: Tensor) -> Tensor:
        """Compute token ids (B, T) -> logits (B, T, V), without a cache."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        mask = positions <= positions[:, None]  # (T, T)
        x = self._embed(input_ids, positions)
        for block in self.blocks:
            if self.gradient_checkpointing and self.training:
                x, _ = checkpoint(block, x, mask, None, use_reentrant=False)
            else:
                x, _ = block(x, mask, None)
        return self._logits(x)

    def forward_cached(
        self, input_ids: Tensor, position_ids: Tensor, past: Sequence[KeyValue]
    ) -> tuple[Tensor, list[KeyValue]]:
        """Continue from a cache of P tokens, which may be 0.

        Args:
            input_ids: int64 (B, T), the new tokens.
            position_ids: int64 (B, T), their absolute positions.
            past: one (keys, values) pair per layer, each (B, n_kv_head, P, head_dim).

        Returns:
            logits (B, T, V) and one pair per layer, each (B, n_kv_head, P + T, head_dim).
        """
        # A row of the mask is one new token; it sees every cached position up to its own.
        seen = torch.arange(past[0][0].shape[2] + input_ids.shape[1], device=input_ids.device)
        mask = seen <= position_ids[0][:, None]  # (T, P + T)
        x = self._embed(input_ids, position_ids)
        present = []
        for block, layer_past in zip(self.blocks, past, strict=True):
            x, layer_present = block(x, mask, layer_past)
            present.append(layer_present)
        return self._logits(x), present

    def empty_cache(self, batch: int) -> list[KeyValue]:
        """Return a cache of 0 tokens for `batch` rows."""
        config = self.config
        empty = self.wte.weight.new_zeros(batch, config.n_kv_head, 0, config.head_dim)
        return [(empty, empty) for _ in range(config.n_layer)]

    def _embed(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        x: Tensor = self.drop(self.wte(input_ids) + self.wpe(position_ids))  # (B, T, D)
        return x

    def _logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm_f(x))  # (B, T, V)
        return logits
