"""Trains a nano model (`kimi_linear`, or `llama` with --arch llama) on one GPU within a wall-clock budget, then exports it.

    python train.py --corpus corpus-en-200mb.txt.xz --out nano-out --budget 1380 [--tokenizer tokenizer.json] [--resume]

Worker processes tokenise the corpus while the GPU compiles its kernels. The learning rate and the context length follow the
clock, so the run ends on time whatever the speed. SIGTERM ends it early; the newest weights are exported in any case.
"""

import argparse
import math
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import torch

import corpus as corpus_module
import kda as kda_module
import optim
from evaluate import Evaluator, quick_table
from export import export, load_exported
from llama import Llama, LlamaConfig
from model import LanguageModel, ModelConfig, Nano
from tasks import ANSWER_MIN, W_TEXT, TaskMixer, produce

T0 = time.time()
MICRO_TOKENS = 131072  # tokens per forward pass, whatever the context length
CHECKPOINT_S, PROBE_STEPS = 90, 400


def arguments() -> argparse.Namespace:
    """Command line. Budgets are seconds since the program's start."""
    p = argparse.ArgumentParser()
    p.add_argument("--corpus", required=True)
    p.add_argument("--out", default="nano-out")
    p.add_argument("--tokenizer", help="tokenizer.json to use instead of training one")
    p.add_argument("--budget", type=float, default=1380)
    p.add_argument("--arch", choices=tuple(optim.STAGES), default="kimi", help="kimi: MLA and KDA (models/nano); llama: GQA (models/nano-gqa)")
    p.add_argument("--rope", action="store_true", help="the RoPE twin: rotate the branch of MLA by its position")
    p.add_argument("--rope-theta", type=float, help="default: 10000 (kimi), 500000 (llama)")
    p.add_argument("--max-length", type=int, choices=(2048, 8192, 32768), default=32768,
                   help="longest context of the schedule (llama's own ends at 8192)")
    p.add_argument("--evaluate", action="store_true", help="end with evaluate.py's quick table of the exported model")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--resume", action="store_true", help="start from OUT/checkpoint.pt")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--tiny", action="store_true", help="a minute on a CPU: tests the whole path")
    args = p.parse_args()
    args.max_length = min(args.max_length, optim.STAGES[args.arch][-1][0])
    if args.arch == "llama" and args.rope:
        p.error("--rope: llama always rotates")
    return args


class Log:
    """Prints lines with the seconds since the start and keeps them in OUT/training-log.txt."""

    def __init__(self, folder: str):
        self.path = os.path.join(folder, "training-log.txt")

    def __call__(self, *parts) -> None:
        line = f"[{time.time() - T0:7.1f}] " + " ".join(str(p) for p in parts)
        print(line, flush=True)
        with open(self.path, "a") as f:
            f.write(line + "\n")


def start_workers(args, docs, tokenizer, words, micro_tokens):
    """Forks the producers: each tokenises its share of the documents, then makes batches. Returns (queue, length, processes)."""
    ctx = multiprocessing.get_context("fork")
    length, queue = ctx.Value("i", 2048), ctx.Queue(24)

    def work(index: int) -> None:
        torch.set_num_threads(1)
        tokens = corpus_module.encode_documents(tokenizer, docs[index :: args.workers])
        mixer = TaskMixer(tokenizer, tokens, words)
        produce(queue, mixer, args.seed * 1000 + 100 + index, lambda: length.value, micro_tokens)

    processes = [ctx.Process(target=work, args=(i,), daemon=True) for i in range(args.workers)]
    for p in processes:
        p.start()
    return queue, length, processes


def check_kernels(device: str) -> None:
    """Compares fla's KDA with the plain recurrence; raises if they disagree."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 192, 2, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    g, beta = -torch.rand(1, 192, 2, 64, device=device), torch.rand(1, 192, 2, device=device)
    want = kda_module.kda_plain(q, k, v, g, beta).float()
    got = kda_module.kda(q, k, v, g, beta).float()
    error = ((got - want).norm() / want.norm()).item()
    if not error < 2e-2:
        raise RuntimeError(f"fla's chunk_kda is off by {error:.3f} from the reference")


def warm_up(model: LanguageModel, lengths, micro_tokens: int, log: Log) -> None:
    """One forward and backward pass per context length, so that everything is compiled before the clock of the schedule starts."""
    device = next(model.parameters()).device
    for length in lengths:
        ids = torch.randint(5, model.c.vocab, (max(1, micro_tokens // length), length + 1), device=device)
        loss, _ = model.loss(ids, torch.ones(ids.shape, device=device))
        loss.backward()
        model.zero_grad(set_to_none=True)
        log(f"warm-up, context {length}: loss {loss.item():.3f}")


class Trainer:
    """The training loop and its state."""

    def __init__(self, args, model, queue, length, log, evaluator):
        self.args, self.model, self.queue, self.length, self.log, self.evaluator = args, model, queue, length, log, evaluator
        self.muon, self.adam = optim.make_optimizers(model)
        self.device = next(model.parameters()).device
        self.step, self.n_tokens, self.stop, self.good = 0, 0, False, None
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "stop", True))

    def next_batch(self):
        """The next micro-batch of the current context length: ids [B, L + 1] int64 and weights float32 on the device."""
        while True:
            length, ids, weights = self.queue.get()
            if length == self.length.value:
                to = lambda a, t: torch.from_numpy(a.astype(t)).to(self.device)
                return to(ids, np.int64), to(weights, np.float32)

    def train_step(self, scale: float, passes: int):
        """One optimiser step. Returns (mean loss, gradient norm, last token losses, last weights), on the device."""
        for group in self.adam.param_groups:
            group["lr"] = optim.ADAM_LR * scale
        total = 0.0
        for _ in range(passes):
            ids, weights = self.next_batch()
            loss, losses = self.model.loss(ids, weights)
            (loss / passes).backward()
            total = total + loss.detach() / passes
            self.n_tokens += losses.numel()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.muon.step(scale)
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        self.step += 1
        return total, norm, losses.detach(), weights[:, 1:]

    def save(self) -> None:
        """Writes OUT/checkpoint.pt atomically."""
        path = os.path.join(self.args.out, "checkpoint.pt")
        state = {k: v.detach().cpu() for k, v in self.model.state_dict().items()}
        torch.save({"model": state, "arch": self.args.arch, "config": vars(self.model.c), "step": self.step, "n_tokens": self.n_tokens}, path + ".new")
        os.replace(path + ".new", path)

    def report(self, done, loss, norm, losses, weights, seconds) -> None:
        """One log line; keeps a copy of finite weights and falls back to it when the loss is not finite."""
        text, answers = losses[weights == W_TEXT].mean().item(), losses[weights >= ANSWER_MIN]
        answer = answers.mean().item() if answers.numel() else float("nan")
        self.log(f"step {self.step} done {done:.3f} L {self.length.value} loss {loss.item():.3f} text {text:.3f} answer {answer:.4f}"
                 f" norm {norm.item():.2f} {self.n_tokens / seconds / 1e3:.0f}k tok/s queue {self.queue.qsize()}")
        if math.isfinite(loss.item()) and math.isfinite(norm.item()):
            self.good = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        elif self.good is not None:
            self.log("loss not finite: back to the last good weights")
            self.model.load_state_dict(self.good)
            self.muon, self.adam = optim.make_optimizers(self.model)

    def run(self) -> None:
        """Trains until the budget is used."""
        start, saved = time.time(), time.time()
        total = max(1.0, T0 + self.args.budget - start)  # a slow start must not turn the clock round
        while not self.stop and (done := (time.time() - start) / total) < 1:
            length, passes = optim.stage(self.args.arch, done, 256 if self.args.tiny else self.args.max_length)
            if self.length.value != length:
                self.length.value = length
                self.log(f"context {length} from step {self.step}")
            result = self.train_step(optim.lr_scale(self.step, done), passes)
            if self.step % 25 == 0 or self.step < 4:
                self.report(done, *result, time.time() - start)
            elif self.step % 4 == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()  # keeps the clock honest: at most four steps are queued
            if self.step % PROBE_STEPS == 0:
                self.log("probe:", self.evaluator.probe(self.model))
            if time.time() - saved > CHECKPOINT_S:
                self.save()
                saved = time.time()
        self.save()
        self.log(f"end: {self.step} steps, {self.n_tokens / 1e6:.1f} million tokens, {time.time() - start:.0f} s of training")


def new_model(args, dtype: torch.dtype) -> tuple[LanguageModel, str]:
    """The untrained model and a word on its positions."""
    if args.arch == "llama":
        c = LlamaConfig(rope_theta=args.rope_theta or LlamaConfig.rope_theta)
        return Llama(c, dtype), f"GQA, RoPE, theta {c.rope_theta:g}"
    c = ModelConfig(rope_theta=(args.rope_theta or 10000.0) if args.rope else None)
    return Nano(c, dtype), f"RoPE, theta {c.rope_theta:g}" if args.rope else "NoPE"


def build(args, device: str, log: Log) -> LanguageModel:
    """The model on the device, resumed if asked, compiled if possible."""
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    model, positions = new_model(args, torch.bfloat16 if device == "cuda" else torch.float32)
    model = model.to(device)
    checkpoint = os.path.join(args.out, "checkpoint.pt")
    if args.resume and os.path.exists(checkpoint):
        saved = torch.load(checkpoint, map_location=device)
        if saved.get("arch", "kimi") != args.arch or saved["config"] != vars(model.c):
            raise ValueError(f"{checkpoint} has another configuration: {saved['config']}")
        model.load_state_dict(saved["model"])
        log(f"resumed from step {saved['step']}")
    if device == "cuda" and not args.no_compile:
        model.compile_parts()
    log(f"{sum(p.numel() for p in model.parameters())} parameters, {positions}, contexts up to {args.max_length}")
    return model


def main() -> None:
    """Data workers, kernels, model, training, export."""
    args = arguments()
    os.makedirs(args.out, exist_ok=True)
    log = Log(args.out)
    micro_tokens = 512 if args.tiny else MICRO_TOKENS
    tokenizer_path = args.tokenizer or os.path.join(args.out, "tokenizer.json")
    docs, held_docs = corpus_module.load_documents(args.corpus)
    if args.tiny:
        docs = docs[:60]
    tokenizer = corpus_module.load_tokenizer(tokenizer_path, docs)
    words = corpus_module.word_list(docs)
    log(f"{len(docs)} documents, {len(held_docs)} held out, {tokenizer.get_vocab_size()} tokens, {len(words)} words")
    queue, length, processes = start_workers(args, docs, tokenizer, words, micro_tokens)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.arch == "kimi":
        kda_module.trim_autotuning()
        check_kernels(device)
        log("KDA kernel agrees with the reference")
    model = build(args, device, log)
    lengths = [256] if args.tiny else optim.contexts(args.arch, args.max_length)
    length.value = lengths[0]
    warm_up(model, lengths, micro_tokens, log)
    evaluator = Evaluator(tokenizer, held_docs, words)
    trainer = Trainer(args, model, queue, length, log, evaluator)
    log(f"queue {queue.qsize()}; training starts")
    try:
        trainer.run()
    finally:
        for p in processes:
            p.terminate()
    folder = os.path.join(args.out, "model")
    size = export(model.state_dict(), model.c, folder, tokenizer_path)
    log(f"exported {size} bytes of weights to {folder}")
    if device == "cuda":
        log(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    if args.evaluate:
        quick_table(evaluator, load_exported(folder, model.dtype, device), log)


if __name__ == "__main__":
    random.seed(0)
    main()
