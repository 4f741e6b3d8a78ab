"""Muon for the large matrices, AdamW for everything else, and the wall-clock schedule."""

import torch

MUON_LR, ADAM_LR = 0.02, 3e-3
WARMUP_STEPS, DECAY_FROM = 80, 0.68


def newton_schulz(g: torch.Tensor) -> torch.Tensor:
    """Near-orthogonal factor of each matrix in g [..., n, m]: five quintic steps in bfloat16."""
    x = g.bfloat16()
    tall = x.size(-2) > x.size(-1)
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon:
    """Momentum whose update is orthogonalised; weight decay 0.05 * lr. Matrices of one shape are updated in one batch."""

    def __init__(self, params, lr: float = MUON_LR):
        self.params, self.lr = list(params), lr
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.groups: dict = {}
        for i, p in enumerate(self.params):
            self.groups.setdefault(tuple(p.shape), []).append(i)

    @torch.no_grad()
    def step(self, scale: float) -> None:
        """One update with learning rate lr * scale."""
        for shape, members in self.groups.items():
            params = [self.params[i] for i in members]
            grads = [p.grad for p in params]
            momentum = [self.momentum[i] for i in members]
            torch._foreach_lerp_(momentum, grads, 0.05)
            update = newton_schulz(torch.stack(torch._foreach_lerp(grads, momentum, 0.95))).float()
            lr = self.lr * scale
            torch._foreach_mul_(params, 1 - lr * 0.05)
            torch._foreach_add_(params, list(update), alpha=-lr * max(1.0, shape[0] / shape[1]) ** 0.5)


def make_optimizers(model) -> tuple[Muon, torch.optim.AdamW]:
    """Muon takes 2-D weights but embeddings, gate and beta projections; AdamW the rest."""
    def is_muon(name: str, p: torch.Tensor) -> bool:
        return p.dim() == 2 and "embed" not in name and "f_b_proj" not in name and ".b_proj" not in name

    named = list(model.named_parameters())
    muon = Muon(p for n, p in named if is_muon(n, p))
    rest = [p for n, p in named if not is_muon(n, p)]
    fused = next(model.parameters()).is_cuda
    return muon, torch.optim.AdamW(rest, lr=ADAM_LR, betas=(0.9, 0.95), weight_decay=0.0, fused=fused)


def lr_scale(step: int, done: float) -> float:
    """Warm-up over the first steps, then flat, then linear to 2% as `done` (share of the time used) goes to 1."""
    decay = 1.0 if done < DECAY_FROM else max(0.02, (1 - done) / (1 - DECAY_FROM))
    return min(1.0, (step + 1) / WARMUP_STEPS) * decay


# Per architecture: (tokens of context, share of the time at which the stage ends, forward passes per step).
# Attention alone must first learn to copy, which takes steps rather than tokens: `llama` starts with short texts full of copies, in half-size steps.
STAGES = {
    "kimi": ((2048, 0.40, 2), (8192, 0.84, 2), (32768, 1.0, 2)),
    "llama": ((512, 0.05, 1), (2048, 0.40, 1), (8192, 1.0, 2)),
}


def stage(arch: str, done: float, max_length: int) -> tuple[int, int]:
    """(tokens of context, never above `max_length`; forward passes per step) at a share of the time used."""
    length, _, passes = next((s for s in STAGES[arch] if done < s[1]), STAGES[arch][-1])
    return min(length, max_length), passes


def contexts(arch: str, max_length: int) -> list[int]:
    """The context lengths of a run, ascending."""
    return [length for length, _, _ in STAGES[arch] if length <= max_length]
