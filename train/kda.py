"""Kimi Delta Attention: the recurrence, through fla's chunked kernels on a GPU and as plain PyTorch elsewhere.

    S_t = diag(exp g_t) S_{t-1};   S_t += beta_t k_t (v_t - S_t^T k_t)^T;   o_t = S_t^T q_t / sqrt(d)

Shapes: q, k, v, g [B, T, H, D]; beta [B, T, H]; g is a log decay (<= 0), beta in (0, 1). q and k are L2-normalised inside.
"""

import torch

MAX_CONFIGS = 4


def trim_autotuning(max_configs: int = MAX_CONFIGS) -> None:
    """Makes every Triton autotuner keep at most `max_configs` candidates; call before fla is imported.

    Kept are first the candidates of 4, 2, 8 and 1 warps with 2 stages, one per set of block sizes before a second of any.
    Compiling all of fla's candidates takes about 4.5 minutes; the kept ones a fraction of that. If Triton's class differs
    from what we expect, nothing changes.
    """
    try:
        from triton.runtime.autotuner import Autotuner
        original = Autotuner.__init__
    except (ImportError, AttributeError):
        return

    def cost(config) -> float:
        warps = {1: 0.9, 2: 0.3, 4: 0.0, 8: 0.6}.get(config.num_warps, 3.0)
        return warps + 1.0 * abs(config.num_stages - 2)

    def init(self, fn, arg_names, configs, *args, **kwargs):
        try:
            ranked = sorted(configs, key=cost)
            seen, first, rest = set(), [], []
            for config in ranked:
                blocks = str(sorted(config.kwargs.items()))
                (rest if blocks in seen else first).append(config)
                seen.add(blocks)
            configs = (first + rest)[:max_configs]
        except Exception as error:  # an unknown kind of config: leave the list alone
            print("autotuning not trimmed:", error)
        original(self, fn, arg_names, configs, *args, **kwargs)

    Autotuner.__init__ = init


def kda_plain(q, k, v, g, beta) -> torch.Tensor:
    """Step-by-step reference in float32 (slow: for tests and the CPU). Returns o [B, T, H, D] in v's dtype."""
    dtype = v.dtype
    q, k, v, g, beta = (x.float() for x in (q, k, v, g, beta))
    q = q * torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
    k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + 1e-6)
    b, t, h, d = q.shape
    state = q.new_zeros(b, h, d, d)
    out = []
    for i in range(t):
        state = state * g[:, i].exp()[..., None]
        delta = (v[:, i] - (state * k[:, i, :, :, None]).sum(-2)) * beta[:, i, :, None]
        state = state + k[:, i, :, :, None] * delta[..., None, :]
        out.append((state * q[:, i, :, :, None]).sum(-2))
    return torch.stack(out, 1).to(dtype)


_chunk_kda = None


def kda(q, k, v, g, beta) -> torch.Tensor:
    """o [B, T, H, D]: fla's chunk_kda for CUDA tensors, the plain recurrence for others."""
    global _chunk_kda
    if not q.is_cuda:
        return kda_plain(q, k, v, g, beta)
    if _chunk_kda is None:
        from fla.ops.kda import chunk_kda
        _chunk_kda = chunk_kda
    out, _ = _chunk_kda(q, k, v, g, beta, use_qk_l2norm_in_kernel=True, disable_recompute=True)
    return out
