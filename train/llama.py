"""The GQA model: the `llama` architecture (pre-norm, grouped queries, RoPE over half-split pairs, SwiGLU), tied embeddings.

Every layer attends over the whole context, so what a KV cache keeps decides what the model can find.
Parameter names equal those of transformers' LlamaForCausalLM, without the leading "model.".
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from model import LanguageModel, Linear, Mlp, RMSNorm


@dataclass
class LlamaConfig:
    """Sizes. The cached row has 2 * kv_heads * d_head numbers per token and layer; heads need not fill d_model."""

    vocab: int = 6144
    d_model: int = 256
    n_layers: int = 7
    d_mlp: int = 352
    heads: int = 8
    kv_heads: int = 2
    d_head: int = 64
    eps: float = 1e-5
    rope_theta: float = 500000.0


def rotate_halves(x, theta: float):
    """RoPE as transformers' Llama: x [B, T, H, D], row t at position t; (x[i], x[i + D/2]) turns by t * theta^(-2i / D), in float32."""
    t, d = x.shape[1], x.shape[-1]
    frequency = 1.0 / theta ** (torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    angle = (torch.arange(t, device=x.device, dtype=torch.float32)[:, None] * frequency)[None, :, None]
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class GroupedAttention(nn.Module):
    """Causal attention; each key/value head serves heads / kv_heads query heads in a row."""

    def __init__(self, c: LlamaConfig):
        super().__init__()
        self.c = c
        self.q_proj = Linear(c.d_model, c.heads * c.d_head)
        self.k_proj, self.v_proj = (Linear(c.d_model, c.kv_heads * c.d_head) for _ in range(2))
        self.o_proj = Linear(c.heads * c.d_head, c.d_model)

    def inputs(self, x):
        """q, k, v [B, T, heads, d_head]; keys and values repeated for their group."""
        c, (b, t, _) = self.c, x.shape
        q = rotate_halves(self.q_proj(x).view(b, t, c.heads, c.d_head), c.rope_theta)
        k = rotate_halves(self.k_proj(x).view(b, t, c.kv_heads, c.d_head), c.rope_theta)
        v = self.v_proj(x).view(b, t, c.kv_heads, c.d_head)
        return q, *(a.repeat_interleave(c.heads // c.kv_heads, dim=2) for a in (k, v))

    def attend(self, q, k, v):
        """[B, T, heads * d_head]."""
        return F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v)), is_causal=True).transpose(1, 2).flatten(2)


class LlamaLayer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). Split at the attention kernel, so both sides compile as one graph."""

    def __init__(self, c: LlamaConfig):
        super().__init__()
        self.input_layernorm = RMSNorm(c.d_model, c.eps)
        self.post_attention_layernorm = RMSNorm(c.d_model, c.eps)
        self.self_attn, self.mlp, self.fast = GroupedAttention(c), Mlp(c), None

    def before(self, x):
        """Norm and the attention's inputs."""
        return self.self_attn.inputs(self.input_layernorm(x))

    def after(self, x, o):
        """Output projection, both residual additions and the MLP."""
        x = x + self.self_attn.o_proj(o)
        return x + self.mlp(self.post_attention_layernorm(x))

    def forward(self, x):
        before, after = self.fast if self.fast and torch.is_grad_enabled() else (self.before, self.after)
        return after(x, self.self_attn.attend(*before(x)))

    def compile_parts(self) -> None:
        """Compiles both sides of the attention kernel for training; evaluation (no gradients) stays uncompiled."""
        self.fast = (torch.compile(self.before, dynamic=False), torch.compile(self.after, dynamic=False))


class Llama(LanguageModel):
    """The `llama` model."""

    def __init__(self, c: LlamaConfig | None = None, dtype: torch.dtype = torch.bfloat16):
        c = c or LlamaConfig()
        super().__init__(c, [LlamaLayer(c) for _ in range(c.n_layers)], dtype)
