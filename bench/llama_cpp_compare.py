#!/usr/bin/env python3
"""Decoding speed of `vestige generate` and llama.cpp on one GGUF file, in turns, with the same threads and prompt.

    llama_cpp_compare.py VESTIGE FILE.gguf [THREADS [N_TOKENS [TURNS]]]

llama.cpp comes from the xllamacpp wheel (pip install xllamacpp; nothing else here needs it) and runs inside this
process; it prints which instruction sets that build uses. Each turn generates N_TOKENS greedily after a short prompt and
after a long one, first with one program, then with the other; loading is not timed. Prints tokens a second of both,
medians of the turns, and the median of each turn's ratio; and whether the texts are the same.
"""

import json
import statistics
import subprocess
import sys

import xllamacpp

SHORT = "Once upon a time there was a"
LONG = "The committee met again on Tuesday and heard the report of its chairman. " * 64 + SHORT


def llama(path, n_threads):
    """A function from prompt and length to (text, read ms a token, decode ms a token)."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx, params.n_parallel, params.n_gpu_layers, params.verbosity = 4096, 1, 0, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = n_threads
    server = xllamacpp.Server(params)

    def run(prompt, n_tokens):
        reply = server.handle_completions({"prompt": prompt, "n_predict": n_tokens, "temperature": 0, "top_k": 1,
                                           "cache_prompt": False})
        t = reply["timings"]
        return reply["choices"][0]["text"], t["prompt_per_token_ms"], t["predicted_per_token_ms"]
    return run


def vestige(binary, path, n_threads):
    """The same, of the `vestige` command with every row attended."""
    def run(prompt, n_tokens):
        command = [binary, "generate", "-m", path, "-t", str(n_threads), "-p", prompt, "-n", str(n_tokens), "-q", "--json",
                   "--policy", "full", "--ratio", "1"]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return out["text"], out["read_s"] * 1e3 / out["prompt_tokens"], out["decode_s"] * 1e3 / len(out["tokens"])
    return run


def main():
    binary, path = sys.argv[1:3]
    n_threads, n_tokens, n_turns = (int(a) for a in (sys.argv[3:] + ["2", "128", "5"][len(sys.argv) - 3:])[:3])
    print(xllamacpp.get_system_info())
    ours, theirs = vestige(binary, path, n_threads), llama(path, n_threads)
    for name, prompt in (("short prompt", SHORT), ("long prompt", LONG)):
        turns = [(ours(prompt, n_tokens), theirs(prompt, n_tokens)) for _ in range(n_turns)]
        for what, i in (("read", 1), ("decode", 2)):
            a, b = (statistics.median(1e3 / turn[side][i] for turn in turns) for side in (0, 1))
            ratio = statistics.median(turn[1][i] / turn[0][i] for turn in turns)
            print(f"{name:13} {what:7} vestige {a:7.1f} tokens/s, llama.cpp {b:7.1f}: {ratio:.2f}")
        print(f"{name:13} texts are {'the same' if turns[0][0][0] == turns[0][1][0] else 'not the same'}")


if __name__ == "__main__":
    main()
