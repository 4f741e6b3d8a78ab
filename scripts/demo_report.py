#!/usr/bin/env python3
"""Prints what demo.sh measured and says whether it went as it should. usage: demo_report.py FOLDER

The folder holds haystack.txt.json (questions and answers), compress.json and the answers vestige.json, full.json, streaming.json.
"""

import json
import sys
from pathlib import Path

ARMS = ("vestige", "full", "streaming")


def mean(report: dict, *path: str) -> float:
    """Mean over the answers of a number inside each; of per-token numbers, weighted by tokens."""
    total = weight = 0.0
    for answer in report["answers"]:
        value = answer
        for key in path:
            value = value[key]
        n = max(len(answer["tokens"]), 1) if path[0] == "stats" else 1
        total, weight = total + n * value, weight + n
    return total / weight


def token_ms(report: dict) -> float:
    """Wall time of one generated token."""
    return 1e3 * sum(a["decode_s"] for a in report["answers"]) / max(sum(len(a["tokens"]) for a in report["answers"]), 1)


def print_answers(asked: list[dict], arms: dict[str, dict]) -> dict[str, int]:
    """A table of the answers; returns how many are right under each policy."""
    right = {}
    print(f"\n{'question':45s} {'depth':>5s} {'hidden':>7s}" + "".join(f" {arm:>12s}" for arm in ARMS))
    for i, item in enumerate(asked):
        answers = [arms[arm]["answers"][i]["answer"][:12] for arm in ARMS]
        print(f"{item['question']:45s} {item['depth']:5.0%} {item['answer']:>7s}" + "".join(f" {a:>12s}" for a in answers))
    for arm in ARMS:
        right[arm] = sum(a["answer"] == item["answer"] for a, item in zip(arms[arm]["answers"], asked))
    print(f"{'right':59s}" + "".join(f" {f'{right[arm]} of {len(asked)}':>12s}" for arm in ARMS))
    return right


def print_numbers(made: dict, arms: dict[str, dict]) -> None:
    """Bytes, rows and times, both sides of each comparison."""
    rows, ours, full = made["rows"], arms["vestige"], arms["full"]
    stats = lambda key, report=ours: mean(report, "stats", key)
    us, full_us = stats("attend_us_per_token"), stats("attend_us_per_token", full)
    read, full_read = stats("read_bytes_per_token"), stats("full_bytes_per_token")
    start = ours["open_s"] + mean(ours, "load_s")
    first = ours["open_s"] + mean(ours, "first_token_s")
    print(f"""
document            {made['tokens']:,} tokens, {made['document_bytes'] / 1e6:.2f} MB of text; file {made['file_bytes'] / 1e6:.1f} MB
attended rows       {rows['attended_bytes'] / 1e6:.2f} MB of {rows['full_bytes'] / 1e6:.2f} MB, {rows['full_bytes'] / rows['attended_bytes']:.1f} times smaller
rows a layer        {rows['kept']:,} kept + {rows['archived']:,} archived + {rows['tail']:,} tail
recalled            {stats('recalled_rows'):,.0f} rows a layer and token, most in one token {max(a['stats']['worst_recalled_rows'] for a in ours['answers']):,.0f}; \
{sum(a['stats']['overflowed_steps'] for a in ours['answers'])} of {sum(a['stats']['steps'] for a in ours['answers'])} steps took the whole archive
read a token        {read / 1e6:.2f} MB, full attention {full_read / 1e6:.2f} MB: {full_read / read:.1f} times less
attention a token   {us / 1e3:.2f} ms, full attention {full_us / 1e3:.2f} ms: {full_us / us:.1f} times faster
a generated token   {token_ms(ours):.1f} ms, full attention {token_ms(full):.1f} ms
reading the text    {made['read_s']:.2f} s ({made['read_tokens_per_s']:,.0f} tokens/s), writing the file {made['write_s']:.2f} s
loading the file    {start:.3f} s (all checksums read), {made['read_s'] / start:,.0f} times faster than reading the text again
first answer token  {first:.3f} s after opening, the question of {mean(ours, 'question_tokens'):.0f} tokens included; the model itself loads in {ours['engine_s']:.2f} s""")


def main(folder: Path) -> int:
    load = lambda name: json.loads((folder / name).read_text())
    asked, made = load("haystack.txt.json"), load("compress.json")
    arms = {arm: load(f"{arm}.json") for arm in ARMS}
    right = print_answers(asked, arms)
    print_numbers(made, arms)
    wrong = []
    if right["vestige"] < len(asked):
        wrong.append(f"{len(asked) - right['vestige']} answers from the compressed file are wrong")
    if right["streaming"] > 0:
        wrong.append(f"recent rows alone found {right['streaming']} passcodes, so the test says nothing")
    print("\n" + ("demo: FAILED: " + "; ".join(wrong) if wrong else "demo: all answers right; recent rows alone find none"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
