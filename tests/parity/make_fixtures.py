#!/usr/bin/env python3
"""Makes the parity fixtures: what transformers' own models compute, for our engine to be held against.

    make_fixtures.py [--only moe|deepseek|deepseek_dense|kimi_rope|llama|mistral|qwen2|qwen3|nano] [--model FOLDER]

writes, from NAME_tiny/config.json, NAME_tiny/{model,expected}.safetensors of the random models and, of the model in FOLDER,
nano/expected.safetensors.

Needs torch, transformers >= 5.17, tokenizers and numpy; CPU only. Everything runs in float32 on one thread from fixed
seeds, so a second run with the same versions writes the same bytes.

moe_tiny is a random model with every feature on, in the layout and with the tensor names of the hub's Kimi-Linear
checkpoints; deepseek_tiny is one of `deepseek_v2` with a query latent, YaRN and experts, deepseek_dense_tiny one
without those and with a tied head. kimi_rope_tiny turns the branch of Kimi Linear's latent attention by the position:
transformers has no such code, so `turned` below does it, in float64 from the formula, on the way into attention.
llama_tiny has positions of type llama3 and a tied head, mistral_tiny one key-value head, qwen2_tiny biases and positions
of type linear, qwen3_tiny biases, normed queries and keys, and heads of another width than hidden_size over heads.

Matrices are BF16; A_log, dt_bias and biases are F32 and not BF16-exact. rms_norm_eps is
1e-3 so that a wrong epsilon is seen (kv_a_layernorm's is 1e-6 whatever the config says).

Hidden states come from forward hooks, because transformers' `output_hidden_states` puts the normed state in the place
of the last layer's output. Each expected.safetensors says in `__metadata__` what its tensors are ("tensor:NAME").
"""

import argparse
import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import tokenizers
import torch
import transformers

HERE = Path(__file__).resolve().parent
SEED = 20260117
T_RANDOM = 70  # over one chunk of 64, and no multiple of 4
RANDOM = ["moe", "deepseek", "deepseek_dense", "kimi_rope", "llama", "mistral", "qwen2", "qwen3"]
PROMPT = """The lighthouse keeper wrote in his log every evening, even when there was nothing to say. On the 3rd of \
March, 1894, he noted: "Wind from the north-west; two ships passed, and neither answered my signal."

Years afterwards a student found the book in a drawer. It's a small thing, she thought, but small things are what \
we're made of, and she began to count them:
1. the ships (42 in all)
2. the letters that never came
3."""


def save_safetensors(path, tensors, metadata=None):
    """Writes a safetensors file. The library's own writer shuffles the metadata, so its bytes differ between runs."""
    kinds = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int32: "I32", torch.uint8: "U8"}
    header, blobs, at = {}, [], 0
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    for name, t in sorted(tensors.items()):
        blob = t.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": kinds[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    head = json.dumps(header, ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))
    print(f"{path.relative_to(HERE)}: {path.stat().st_size} bytes")


def random_gqa_weights(c, seed):
    """Random weights of the Llama family by their hub names."""
    gen = torch.Generator().manual_seed(seed)
    randn = lambda *shape: torch.randn(*shape, generator=gen)
    linear = lambda out, inn, gain=1.0: randn(out, inn) * (gain / inn**0.5)
    norm = lambda n: 1 + 0.2 * randn(n)
    d, width, kind = c["hidden_size"], c["intermediate_size"], c["model_type"]
    h, n_kv = c["num_attention_heads"], c["num_key_value_heads"]
    d_head = c.get("head_dim") or d // h
    normed = kind == "qwen3"
    biases = "qkv" if kind == "qwen2" else "qkvo" if c.get("attention_bias") else ""
    w = {"model.embed_tokens.weight": randn(c["vocab_size"], d), "model.norm.weight": norm(d)}
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = linear(c["vocab_size"], d, 2.0)
    for i in range(c["num_hidden_layers"]):
        p, a = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        w |= {p + "input_layernorm.weight": norm(d), p + "post_attention_layernorm.weight": norm(d)}
        gain = 0.2 if normed else 1.5  # short queries and keys: the norm's epsilon shows
        w |= {a + "q_proj.weight": linear(h * d_head, d, gain), a + "k_proj.weight": linear(n_kv * d_head, d, gain),
              a + "v_proj.weight": linear(n_kv * d_head, d, 1.5), a + "o_proj.weight": linear(d, h * d_head, 1.5)}
        for x in biases:
            w[a + f"{x}_proj.bias"] = randn(w[a + f"{x}_proj.weight"].shape[0]) * (0.2 if normed else 0.5)
        if normed:
            w |= {a + "q_norm.weight": 1.5 * norm(d_head), a + "k_norm.weight": 1.5 * norm(d_head)}
        w |= {p + "mlp.gate_proj.weight": linear(width, d), p + "mlp.up_proj.weight": linear(width, d),
              p + "mlp.down_proj.weight": linear(d, width, 1.5)}
    return {k: t if k.endswith("bias") else t.bfloat16() for k, t in w.items()}


def random_weights(c, seed):
    """Random weights by their hub names, scaled so that activations stay near 1 and no gate is trivial."""
    if "kv_lora_rank" not in c:
        return random_gqa_weights(c, seed)
    gen = torch.Generator().manual_seed(seed)
    randn = lambda *shape: torch.randn(*shape, generator=gen)
    uniform = lambda lo, hi, *shape: lo + (hi - lo) * torch.rand(*shape, generator=gen)
    linear = lambda out, inn, gain=1.0: randn(out, inn) * (gain / inn**0.5)
    norm = lambda n: 1 + 0.2 * randn(n)
    d, kimi = c["hidden_size"], c["model_type"] == "kimi_linear"
    la = c.get("linear_attn_config", {"kda_layers": []})
    h, lora, vdim = c["num_attention_heads"], c["kv_lora_rank"], c["v_head_dim"]
    nope, rope = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    w = {"model.embed_tokens.weight": randn(c["vocab_size"], d)}
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = linear(c["vocab_size"], d, 2.0)
    w["model.norm.weight"] = norm(d)
    mlp = lambda p, width: {p + "gate_proj.weight": linear(width, d), p + "up_proj.weight": linear(width, d),
                            p + "down_proj.weight": linear(d, width, 1.5)}
    for i in range(c["num_hidden_layers"]):
        p, a = f"model.layers.{i}.", f"model.layers.{i}.self_attn."
        w |= {p + "input_layernorm.weight": norm(d), p + "post_attention_layernorm.weight": norm(d)}
        if i + 1 in la["kda_layers"]:
            heads, dim, taps = la["num_heads"], la["head_dim"], la["short_conv_kernel_size"]
            hd = heads * dim
            for x in "qkv":
                w |= {a + f"{x}_proj.weight": linear(hd, d, 1.5), a + f"{x}_conv1d.weight": randn(hd, 1, taps) * 0.7}
            w[a + "k_proj.weight"][:dim] *= 0.02  # one head with keys so short that l2norm's epsilon shows
            w |= {a + "A_log": uniform(0.3, 8.0, 1, 1, heads, 1).log(), a + "dt_bias": uniform(-4.0, 0.5, hd),
                  a + "f_a_proj.weight": linear(dim, d), a + "f_b_proj.weight": linear(hd, dim, 1.5),
                  a + "b_proj.weight": linear(heads, d, 1.5),
                  a + "g_a_proj.weight": linear(dim, d, 1.5), a + "g_b_proj.weight": linear(hd, dim, 1.5),
                  a + "o_norm.weight": norm(dim), a + "o_proj.weight": linear(d, hd, 1.5)}
        else:
            if q_lora := c["q_lora_rank"]:
                w |= {a + "q_a_proj.weight": linear(q_lora, d, 0.04), a + "q_a_layernorm.weight": norm(q_lora),
                      a + "q_b_proj.weight": linear(h * (nope + rope), q_lora, 2.0)}
            else:
                w[a + "q_proj.weight"] = linear(h * (nope + rope), d, 2.0)
            w |= {a + "kv_a_proj_with_mqa.weight": linear(lora + rope, d, 2.0),
                  a + "kv_a_layernorm.weight": norm(lora), a + "kv_b_proj.weight": linear(h * (nope + vdim), lora, 1.5),
                  a + "o_proj.weight": linear(d, h * vdim, 1.5)}
            w[a + "kv_a_proj_with_mqa.weight"][:lora] *= 0.02  # a small latent: kv_a_layernorm's epsilon shows
        if i < c["first_k_dense_replace"]:
            w |= mlp(p + "mlp.", c["intermediate_size"])
            continue
        m = c["moe_intermediate_size"]
        if not kimi:
            p, e = p + "mlp.", c["n_routed_experts"]
            w |= {p + "gate.weight": linear(e, d, 1.5)} | mlp(p + "shared_experts.", m * c["n_shared_experts"])
            for j in range(e):
                w |= mlp(p + f"experts.{j}.", m)
            continue
        p, e = p + "block_sparse_moe.", c["num_experts"]
        w |= {p + "gate.weight": linear(e, d, 1.5), p + "gate.e_score_correction_bias": uniform(-0.2, 0.25, e)}
        w |= mlp(p + "shared_experts.", m * c["num_shared_experts"])
        for j in range(e):
            w |= {p + f"experts.{j}.w1.weight": linear(m, d), p + f"experts.{j}.w3.weight": linear(m, d),
                  p + f"experts.{j}.w2.weight": linear(d, m, 1.5)}
    return {k: t if k.endswith(("A_log", "dt_bias", "bias")) else t.bfloat16() for k, t in w.items()}


def turned(x, first, c):
    """Rotary positions: the last qk_rope_head_dim numbers of x [..., t, d], token i at position first + i.

    Pair j, a complex number, is multiplied by exp(i * position * theta ** (-2j / qk_rope_head_dim))."""
    d = c["qk_rope_head_dim"]
    rest, branch = x[..., :-d], x[..., -d:].double()
    pairs = branch.unflatten(-1, (d // 2, 2) if c["rope_interleave"] else (2, d // 2))
    axis = -1 if c["rope_interleave"] else -2
    position = torch.arange(first, first + x.shape[-2], dtype=torch.float64)
    angle = position[:, None] * c["rope_theta"] ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    out = torch.complex(*pairs.unbind(axis)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([rest, torch.stack([out.real, out.imag], axis).flatten(-2).to(x.dtype)], -1)


def rotate_kimi(c):
    """Makes transformers' kimi_linear turn branches: its eager attention gets the keys of all tokens so far."""
    module = transformers.models.kimi_linear.modeling_kimi_linear
    plain = module.eager_attention_forward

    def attend(layer, query, key, value, *args, **kw):
        n_past = key.shape[-2] - query.shape[-2]
        return plain(layer, turned(query, n_past, c), turned(key, 0, c), value, *args, **kw)

    module.eager_attention_forward = attend
    return lambda: setattr(module, "eager_attention_forward", plain)


class Runner:
    """A model loaded by transformers in float32, with a hook on everything whose output a fixture holds."""

    def __init__(self, folder):
        self.model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        self.model.eval()
        missing = set(info["missing_keys"])
        if self.model.config.tie_word_embeddings and "lm_head.weight" in missing:
            # transformers 5.24 does not tie this architecture's head: it would be left random
            self.model.lm_head.weight = self.model.model.embed_tokens.weight
            missing.discard("lm_head.weight")
        assert not missing and not info["unexpected_keys"] and not info["mismatched_keys"], info
        self.out = {}
        core = self.model.model
        watched = {"embed": core.embed_tokens, "final_norm": core.norm}
        for i, layer in enumerate(core.layers):
            watched |= {f"layer.{i}": layer, f"attn.{i}": layer.self_attn, f"ffn.{i}": layer.mlp}
            if hasattr(layer.mlp, "gate"):
                watched[f"router.{i}"] = layer.mlp.gate
        for name, module in watched.items():
            module.register_forward_hook(lambda _m, _i, o, name=name: self.out.__setitem__(name, o))
        self.n_layers = len(core.layers)

    @torch.no_grad()
    def __call__(self, ids, **kw):
        """Runs ids from the start, without a cache unless one is given; returns logits [t, vocab]."""
        return self.model(input_ids=torch.tensor([ids]), use_cache=bool(kw), **kw).logits[0]

    def stacked(self, kind):
        """The outputs of every layer's `kind` module as [n_layers, t, d]."""
        outs = (self.out[f"{kind}.{i}"] for i in range(self.n_layers))
        return torch.stack([(o[0] if isinstance(o, tuple) else o)[0] for o in outs])

    def hidden(self):
        """[n_layers + 1, t, d]: the embeddings, then the raw output of every layer."""
        return torch.cat([self.out["embed"], self.stacked("layer")])

    def routers(self):
        """{layer: (logits, weights, expert ids)} of the MoE layers."""
        return {int(k[7:]): o for k, o in self.out.items() if k.startswith("router.")}

    def greedy(self, ids, n):
        """n greedy tokens (running on past eos) by full recomputation, checked against a cached decode.

        Also returns the smallest gap between the best and second logit on the way."""
        ids, gap, start = list(ids), np.inf, len(ids)
        for _ in range(n):
            top = self(ids)[-1].topk(2)
            gap = min(gap, float(top.values[0] - top.values[1]))
            ids.append(int(top.indices[0]))
        cache = transformers.DynamicCache(config=self.model.config)
        logits, cached = self(ids[:start], cache=cache), []
        for _ in range(n):
            cached.append(int(logits[-1].argmax()))
            logits = self(cached[-1:], cache=cache)
        assert cached == ids[start:], "decode with a cache gave other tokens than recomputation"
        return ids[start:], gap

    def router_margins(self, c):
        """Per position of the last run: how far the nearest other expert choice was, over all MoE layers.

        Also which share of choices the correction bias and the grouping changed."""
        if c["model_type"] == "deepseek_v2":  # the largest softmax scores, nothing else
            k, best = c["num_experts_per_tok"], []
            for logits, _, ids in self.routers().values():
                top = logits.softmax(-1).topk(k + 1)
                assert torch.equal(top.indices[:, :k].sort().values, ids.sort().values)
                best.append(top.values[:, k - 1] - top.values[:, k])
            return torch.stack(best).amin(0), 0.0, 0.0
        n, group, keep, k = (c[x] for x in ("num_experts", "num_expert_group", "topk_group", "num_experts_per_token"))

        def chosen(s):
            return s.topk(k).indices.sort().values

        def masked(s):
            top2 = s.view(-1, group, n // group).topk(2).values.sum(-1)
            order = top2.sort(descending=True)
            mask = torch.zeros_like(top2).scatter_(1, order.indices[:, :keep], 1).repeat_interleave(n // group, 1)
            return s.masked_fill(mask == 0, -np.inf), order.values[:, keep - 1] - order.values[:, keep]

        margins, by_bias, by_group = [], [], []
        for i, (logits, _, ids) in self.routers().items():
            score = logits.sigmoid()
            choice = score + self.model.model.layers[i].mlp.gate.e_score_correction_bias
            inside, group_gap = masked(choice)
            best = inside.topk(k + 1).values
            assert torch.equal(chosen(inside), ids.sort().values)
            margins.append(torch.minimum(group_gap, best[:, k - 1] - best[:, k]))
            by_bias.append((chosen(masked(score)[0]) != chosen(inside)).any(-1).float().mean())
            by_group.append((chosen(choice) != chosen(inside)).any(-1).float().mean())
        return torch.stack(margins).amin(0), float(np.mean(by_bias)), float(np.mean(by_group))


def metadata(folder, command, tensors):
    """What every expected.safetensors carries: versions, the command, the model's hashes, the tensors' meaning."""
    files = sorted(f for f in folder.iterdir() if f.suffix == ".safetensors" and f.name != "expected.safetensors")
    meta = {f"sha256:{f.name}": hashlib.sha256(f.read_bytes()).hexdigest() for f in [folder / "config.json", *files]}
    meta |= {"transformers": transformers.__version__, "torch": torch.__version__, "command": command,
             "run": "float32, CPU, one thread, eager attention, torch fallback of KDA (chunks of 64), no cache"}
    return meta | {f"tensor:{k}": v for k, v in tensors.items()}


def int32(values):
    return torch.tensor(values, dtype=torch.int32)


COMMON = {
    "ids": "i32 [t] the prompt",
    "hidden": "f32 [n_layers+1, p, d] embeddings, then the raw output of each layer (before the final norm)",
    "final_norm": "f32 [p, d] model.norm of the last layer's output, what lm_head reads",
    "greedy": "i32 greedy tokens that follow ids; goes on past eos",
}


def make_random(name):
    """NAME_tiny/: writes the random model, then picks a prompt whose expert and token choices are no near-ties."""
    folder = HERE / f"{name}_tiny"
    c = json.loads((folder / "config.json").read_text())
    save_safetensors(folder / "model.safetensors", random_weights(c, SEED), {"format": "pt"})
    run = Runner(folder)
    has_experts = c.get("first_k_dense_replace", c["num_hidden_layers"]) < c["num_hidden_layers"]
    margin_of = lambda: run.router_margins(c)[0] if has_experts else torch.tensor([np.inf])
    for seed in range(1000):
        rng, ids = np.random.default_rng([SEED, seed]), []
        while len(ids) < T_RANDOM:  # each token is drawn anew until the choices at its position are clear
            ids.append(int(rng.integers(3, c["vocab_size"])))
            if not has_experts:
                continue
            run(ids)
            if margin_of()[-1] < 5e-3:
                ids.pop()
        greedy, logit_gap = run.greedy(ids, 16)
        run(ids + greedy)
        margin = float(margin_of().min())
        if margin > 2e-3 and logit_gap > 0.02 and len(set(greedy)) > 6:
            break
    else:
        raise SystemExit("no prompt without near-ties")
    facts = {"logit_gap": f"{logit_gap:.4f} least gap of best and second greedy logit", "prompt_seed": str(seed),
             "weights_seed": str(SEED)}
    if has_experts:
        facts["router_margin"] = (f"{margin:.5f} least distance of any expert or group choice from another one, over "
                                  "prompt and greedy tokens")
    save_random(folder, c, run, ids, greedy, facts)


def save_random(folder, c, run, ids, greedy, facts):
    """Writes expected.safetensors of a random model."""
    cache = transformers.DynamicCache(config=run.model.config)
    run(ids, cache=cache)
    tensors = {f"state.{i - 1}": cache.get_recurrent_state(i - 1, state_idx=0)[0].float()
               for i in c.get("linear_attn_config", {"kda_layers": []})["kda_layers"]}
    logits = run(ids)
    said = COMMON | {
        "logits": "f32 [t, vocab]", "attn": "f32 [n_layers, t, d] output of self_attn (before the residual sum)",
        "ffn": "f32 [n_layers, t, d] output of mlp / block_sparse_moe (before the residual sum)",
        "router.L.ids": "i32 [t, k] experts chosen in layer L, ascending",
        "router.L.weights": "f32 [t, k] their final weights (renormalised, scaled), same order",
        "state.L": "f32 [heads, k dim, v dim] KDA state of layer L after the whole prompt"}
    meta = metadata(folder, f"make_fixtures.py --only {folder.name.removesuffix('_tiny')}", said) | facts
    if folder.name == "moe_tiny":
        _, by_bias, by_group = run.router_margins(c)
        assert by_bias > 0.05 and by_group > 0.05, (by_bias, by_group)
        meta |= {"changed_by_bias": f"{by_bias:.3f} share of expert sets that the correction bias changes",
                 "changed_by_groups": f"{by_group:.3f} share of expert sets that the grouping changes"}
        tensors |= {"attn": run.stacked("attn"), "ffn": run.stacked("ffn")}
        for i, (_, weights, experts) in run.routers().items():
            order = experts.sort()
            tensors |= {f"router.{i}.ids": order.values.int(), f"router.{i}.weights": weights.gather(1, order.indices)}
    tensors |= {"ids": int32(ids), "greedy": int32(greedy), "hidden": run.hidden(), "logits": logits,
                "final_norm": run.out["final_norm"][0]}
    save_safetensors(folder / "expected.safetensors", tensors, meta)
    print("hidden rms by layer:", [round(float(x.pow(2).mean().sqrt()), 2) for x in run.hidden()])
    print(facts)


def make_kimi_rope():
    """kimi_rope_tiny/: as make_random, with branches turned; without that the logits are others."""
    folder = HERE / "kimi_rope_tiny"
    c = json.loads((folder / "config.json").read_text())
    undo = rotate_kimi(c)
    make_random("kimi_rope")
    run, ids = Runner(folder), list(range(3, 3 + T_RANDOM))
    logits = run(ids)
    undo()
    change = float((run(ids) - logits).abs().max() / logits.abs().max())
    assert change > 0.1, change
    print(f"rotation changes the logits by {change:.2f} of the largest")


def make_nano(folder):
    """nano/: a trained model on real text; hidden states at 24 spread positions and the last."""
    tok = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tok.encode(PROMPT, add_special_tokens=False).ids
    run = Runner(folder)
    greedy, gap = run.greedy(ids, 24)
    logits = run(ids)
    at = np.unique(np.append(np.linspace(0, len(ids) - 2, 24).round().astype(int), len(ids) - 1))
    meta = metadata(folder, "make_fixtures.py --only nano --model FOLDER", COMMON | {
        "positions": "i32 [p] positions that hidden and final_norm hold", "argmax": "i32 [t] best token at every "
        "position", "logits": "f32 [vocab] of the last position", "prompt": "u8 the prompt's UTF-8; ids has no bos"})
    meta["logit_gap"] = f"{gap:.4f} least gap of best and second greedy logit"
    save_safetensors(HERE / "nano" / "expected.safetensors", {
        "ids": int32(ids), "greedy": int32(greedy), "positions": int32(at), "argmax": logits.argmax(-1).int(),
        "hidden": run.hidden()[:, at], "final_norm": run.out["final_norm"][0, at], "logits": logits[-1],
        "prompt": torch.tensor(list(PROMPT.encode()), dtype=torch.uint8)}, meta)
    print(f"{len(ids)} tokens, logit gap {gap:.4f}, continues: {tok.decode(greedy)!r}")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--model", type=Path, default=Path("/work/shared/models/nano"))
    args.add_argument("--only", choices=[*RANDOM, "nano"])
    args = args.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in [args.only] if args.only else [*RANDOM, "nano"]:
        if name == "nano":
            make_nano(args.model)
        elif name == "kimi_rope":
            make_kimi_rope()
        else:
            make_random(name)


if __name__ == "__main__":
    main()
