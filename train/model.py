"""The model: 8 layers, MLA without positional rotation at layers 4 and 8, KDA elsewhere (the `kimi_linear` architecture).

The RoPE twin (`rope_theta` set) differs in one thing: the branch of MLA, query and key, is rotated by its position.

Master weights are float32; activations are bfloat16 on a GPU (every weight is cast where it is used).
Parameter names equal those of the hub checkpoint, without its leading "model.".
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from kda import kda


@dataclass
class ModelConfig:
    """Sizes. The cached MLA row has kv_rank + d_rope numbers per token. rope_theta None: no rotation."""

    vocab: int = 6144
    d_model: int = 320
    n_layers: int = 8
    d_mlp: int = 576
    kda_heads: int = 5
    kda_dim: int = 64
    conv: int = 4
    mla_heads: int = 8
    kv_rank: int = 512
    d_nope: int = 64
    d_rope: int = 64
    d_value: int = 64
    eps: float = 1e-5
    rope_theta: float | None = None

    def is_mla(self, layer: int) -> bool:
        """True for layers 4, 8, ... counted from one (`layer` counts from zero)."""
        return layer % 4 == 3


class Linear(nn.Module):
    """y = x W^T without bias; W [n_out, n_in] float32, cast to x's dtype."""

    def __init__(self, n_in: int, n_out: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_out, n_in) * 0.02)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, computed in float32."""

    def __init__(self, d: int, eps: float):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).to(x.dtype)


class ShortConv(nn.Module):
    """Causal depthwise convolution over time followed by SiLU; weight [d, 1, width]; x [B, T, d]."""

    def __init__(self, d: int, width: int):
        super().__init__()
        self.weight = nn.Parameter((torch.rand(d, 1, width) * 2 - 1) * width**-0.5)

    def forward(self, x):
        w, t, width = self.weight.float(), x.shape[1], self.weight.shape[-1]
        padded = F.pad(x, (0, 0, width - 1, 0))
        y = sum(padded[:, j : j + t].float() * w[:, 0, j] for j in range(width))
        return F.silu(y).to(x.dtype)


class KdaAttention(nn.Module):
    """Kimi Delta Attention layer; x [B, T, d_model]."""

    def __init__(self, c: ModelConfig):
        super().__init__()
        n, self.heads, self.dim = c.kda_heads * c.kda_dim, c.kda_heads, c.kda_dim
        self.q_proj, self.k_proj, self.v_proj = (Linear(c.d_model, n) for _ in range(3))
        self.q_conv1d, self.k_conv1d, self.v_conv1d = (ShortConv(n, c.conv) for _ in range(3))
        self.f_a_proj, self.f_b_proj = Linear(c.d_model, c.kda_dim), Linear(c.kda_dim, n)
        self.A_log = nn.Parameter(torch.empty(1, 1, c.kda_heads, 1).uniform_(1, 16).log())
        dt = torch.empty(n).uniform_(math.log(1e-3), math.log(1e-1)).exp()
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.b_proj = Linear(c.d_model, c.kda_heads)
        self.g_a_proj, self.g_b_proj = Linear(c.d_model, c.kda_dim), Linear(c.kda_dim, n)
        self.o_norm = RMSNorm(c.kda_dim, c.eps)
        self.o_proj = Linear(n, c.d_model)

    def inputs(self, x):
        """q, k, v, g, beta of the recurrence (kda.py) and the output gate, all [B, T, H, D] but beta [B, T, H]."""
        shape = (*x.shape[:2], self.heads, self.dim)
        q = self.q_conv1d(self.q_proj(x)).view(shape)
        k = self.k_conv1d(self.k_proj(x)).view(shape)
        v = self.v_conv1d(self.v_proj(x)).view(shape)
        f = self.f_b_proj(self.f_a_proj(x)).float() + self.dt_bias.float()
        g = -self.A_log.float().exp() * F.softplus(f.view(shape))
        beta = self.b_proj(x).float().sigmoid()
        gate = self.g_b_proj(self.g_a_proj(x)).view(shape)
        return q, k, v, g, beta, gate

    def output(self, o, gate):
        """Gated norm per head and the output projection: [B, T, d_model]."""
        y = self.o_norm(o.float()) * gate.float().sigmoid()
        return self.o_proj(y.to(gate.dtype).flatten(2))


def rotate(x, theta: float):
    """RoPE over interleaved pairs, as transformers' deepseek_v2: x [B, T, H, D], row t at absolute position t.

    (x[2i], x[2i + 1]) turns by t * theta^(-2i / D); each pair stays where it is. Angles and products are float32.
    """
    t, d = x.shape[1], x.shape[-1]
    frequency = 1.0 / theta ** (torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    angle = (torch.arange(t, device=x.device, dtype=torch.float32)[:, None] * frequency)[None, :, None]
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().unflatten(-1, (d // 2, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class MlaAttention(nn.Module):
    """Multi-head latent attention; the row kept per token is (normed latent, shared key part, rotated in the RoPE twin)."""

    def __init__(self, c: ModelConfig):
        super().__init__()
        self.c, self.heads = c, c.mla_heads
        self.q_proj = Linear(c.d_model, c.mla_heads * (c.d_nope + c.d_rope))
        self.kv_a_proj_with_mqa = Linear(c.d_model, c.kv_rank + c.d_rope)
        self.kv_a_layernorm = RMSNorm(c.kv_rank, c.eps)
        self.kv_b_proj = Linear(c.kv_rank, c.mla_heads * (c.d_nope + c.d_value))
        self.o_proj = Linear(c.mla_heads * c.d_value, c.d_model)

    def inputs(self, x):
        """q, k, v [B, T, H, d_nope + d_rope]; v is padded with zeros to the key width for the flash kernel."""
        c, (b, t, _) = self.c, x.shape
        q = self.q_proj(x).view(b, t, self.heads, c.d_nope + c.d_rope)
        latent, shared = self.kv_a_proj_with_mqa(x).split([c.kv_rank, c.d_rope], -1)
        shared = shared[:, :, None]
        if c.rope_theta is not None:
            q = torch.cat([q[..., : c.d_nope], rotate(q[..., c.d_nope :], c.rope_theta)], -1)
            shared = rotate(shared, c.rope_theta)
        kv = self.kv_b_proj(self.kv_a_layernorm(latent)).view(b, t, self.heads, c.d_nope + c.d_value)
        k = torch.cat([kv[..., : c.d_nope], shared.expand(b, t, self.heads, c.d_rope)], -1)
        v = F.pad(kv[..., c.d_nope :], (0, c.d_nope + c.d_rope - c.d_value))
        return q, k, v

    def attend(self, q, k, v):
        """Causal softmax attention; [B, T, H * d_value]."""
        scale = (self.c.d_nope + self.c.d_rope) ** -0.5
        o = F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v)), is_causal=True, scale=scale)
        return o.transpose(1, 2)[..., : self.c.d_value].flatten(2)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, c: ModelConfig):
        super().__init__()
        self.gate_proj, self.up_proj = Linear(c.d_model, c.d_mlp), Linear(c.d_model, c.d_mlp)
        self.down_proj = Linear(c.d_mlp, c.d_model)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)). Split at the attention kernel, so both sides compile as one graph."""

    def __init__(self, c: ModelConfig, mla: bool):
        super().__init__()
        self.input_layernorm = RMSNorm(c.d_model, c.eps)
        self.post_attention_layernorm = RMSNorm(c.d_model, c.eps)
        self.self_attn = MlaAttention(c) if mla else KdaAttention(c)
        self.mlp, self.is_mla, self.fast = Mlp(c), mla, None

    def before(self, x):
        """Norm and the attention's inputs."""
        return self.self_attn.inputs(self.input_layernorm(x))

    def after_kda(self, x, o, gate):
        """Gated output, both residual additions and the MLP."""
        x = x + self.self_attn.output(o, gate)
        return x + self.mlp(self.post_attention_layernorm(x))

    def after_mla(self, x, o):
        """Output projection, both residual additions and the MLP."""
        x = x + self.self_attn.o_proj(o)
        return x + self.mlp(self.post_attention_layernorm(x))

    def forward(self, x):
        fast = self.fast if torch.is_grad_enabled() else None
        before = fast[0] if fast else self.before
        if self.is_mla:
            o = self.self_attn.attend(*before(x))
            return (fast[1] if fast else self.after_mla)(x, o)
        q, k, v, g, beta, gate = before(x)
        return (fast[1] if fast else self.after_kda)(x, kda(q, k, v, g, beta), gate)

    def compile_parts(self) -> None:
        """Compiles both sides of the attention kernel for training; evaluation (no gradients) stays uncompiled."""
        after = self.after_mla if self.is_mla else self.after_kda
        self.fast = (torch.compile(self.before, dynamic=False), torch.compile(after, dynamic=False))


class LanguageModel(nn.Module):
    """Embeddings tied to the output, around the layers of an architecture. `c` has vocab, d_model and eps."""

    def __init__(self, c, layers: list[nn.Module], dtype: torch.dtype):
        super().__init__()
        self.c, self.dtype = c, dtype
        self.embed_tokens = nn.Embedding(c.vocab, c.d_model)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        self.layers = nn.ModuleList(layers)
        self.norm = RMSNorm(c.d_model, c.eps)
        for layer in self.layers:
            nn.init.normal_(layer.mlp.down_proj.weight, std=0.005)
            nn.init.normal_(layer.self_attn.o_proj.weight, std=0.005)

    def compile_parts(self) -> None:
        """Compiles the layers' token-wise parts and the loss."""
        torch._dynamo.config.recompile_limit = 64
        for layer in self.layers:
            layer.compile_parts()
        self.token_losses = torch.compile(self.token_losses, dynamic=False)

    def hidden(self, ids):
        """Final normed states [B, T, d_model] of ids [B, T]."""
        x = F.embedding(ids, self.embed_tokens.weight).to(self.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def token_losses(self, hidden, targets):
        """Cross-entropy in nats per target, [N]; hidden [N, d_model], targets [N]."""
        logits = F.linear(hidden, self.embed_tokens.weight.to(hidden.dtype)).float()
        return F.cross_entropy(logits, targets, reduction="none")

    def loss(self, ids, weights):
        """(weighted mean loss, losses [B, T]) for ids and weights [B, T + 1]."""
        hidden = self.hidden(ids[:, :-1])
        losses = self.token_losses(hidden.flatten(0, 1), ids[:, 1:].flatten()).view(ids.shape[0], -1)
        w = weights[:, 1:]
        return (losses * w).sum() / w.sum(), losses


class Nano(LanguageModel):
    """The `kimi_linear` model."""

    def __init__(self, c: ModelConfig | None = None, dtype: torch.dtype = torch.bfloat16):
        c = c or ModelConfig()
        super().__init__(c, [Layer(c, c.is_mla(i)) for i in range(c.n_layers)], dtype)
