#!/usr/bin/env python3
"""Prints what demo.sh measured and says whether it went as it should. usage: demo_report.py FOLDER POLICY BASELINE

The folder holds haystack.txt.json (questions and answers), compress.json (of POLICY), the answers POLICY.json, full.json and
BASELINE.json, and where the arms have files of their own compress_full.json and compress_BASELINE.json.
"""

import json
import sys
from pathlib import Path

LOSSY = {"klt": 1}  # answers that may be wrong: codes of a few bits lose some
BASELINES = {"streaming": "recent rows alone", "snapkv": "SnapKV's rows"}


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
    print(f"\n{'question':45s} {'depth':>5s} {'hidden':>7s}" + "".join(f" {arm:>12s}" for arm in arms))
    for i, item in enumerate(asked):
        answers = [arms[arm]["answers"][i]["answer"][:12] for arm in arms]
        print(f"{item['question']:45s} {item['depth']:5.0%} {item['answer']:>7s}" + "".join(f" {a:>12s}" for a in answers))
    for arm in arms:
        right[arm] = sum(a["answer"] == item["answer"] for a, item in zip(arms[arm]["answers"], asked))
    print(f"{'right':59s}" + "".join(f" {f'{right[arm]} of {len(asked)}':>12s}" for arm in arms))
    return right


def recalled_text(ours: dict) -> str:
    """What was fetched from the archive."""
    answers = [a["stats"] for a in ours["answers"]]
    return (f"{mean(ours, 'stats', 'recalled_rows'):,.0f} rows a layer and token, most in one token "
            f"{max(a['worst_recalled_rows'] for a in answers):,.0f}; {sum(a['overflowed_steps'] for a in answers)} of "
            f"{sum(a['steps'] for a in answers)} steps took the whole archive")


def coded_text(rows: dict) -> str:
    """What the codes take for the rows they stand for; the exact rows beside them do not count."""
    row = rows["full_bytes"] / rows["total"]
    exact, codes = row * rows["archived"], rows["attended_bytes"] - row * (rows["kept"] + rows["tail"])
    return f"{codes / 1e6:.2f} MB for {exact / 1e6:.2f} MB of rows, {exact / codes:.1f} times smaller; every row is attended"


def print_files(made: dict[str, dict]) -> None:
    """The arms side by side, where each has a file of its own."""
    for name, size in (("files", lambda report: report["file_bytes"]), ("attended", lambda report: report["rows"]["attended_bytes"])):
        sizes = [size(report) for report in made.values()]
        text = ", ".join(f"{arm} {n / 1e6:.2f} MB" for arm, n in zip(made, sizes))
        ours, full = sizes[:2]
        print(f"{name:19s} {text}; {next(iter(made))} {full / ours:.1f} times smaller than full")


def print_numbers(made: dict, ours: dict, full: dict) -> None:
    """Bytes, rows and times, both sides of each comparison."""
    rows = made["rows"]
    coded = mean(ours, "stats", "coded_rows") > 0
    stats = lambda key, report=ours: mean(report, "stats", key)
    us, full_us = stats("attend_us_per_token"), stats("attend_us_per_token", full)
    read, full_read = stats("read_bytes_per_token"), stats("full_bytes_per_token")
    start = ours["open_s"] + mean(ours, "load_s")
    first = ours["open_s"] + mean(ours, "first_token_s")
    print(f"""
document            {made['tokens']:,} tokens, {made['document_bytes'] / 1e6:.2f} MB of text; file {made['file_bytes'] / 1e6:.1f} MB
attended rows       {rows['attended_bytes'] / 1e6:.2f} MB of {rows['full_bytes'] / 1e6:.2f} MB, {rows['full_bytes'] / rows['attended_bytes']:.1f} times smaller
rows a layer        {rows['kept']:,} kept + {rows['archived']:,} {'coded' if coded else 'archived'} + {rows['tail']:,} tail
{'codes               ' + coded_text(rows) if coded else 'recalled            ' + recalled_text(ours)}
read a token        {read / 1e6:.2f} MB, full attention {full_read / 1e6:.2f} MB: {full_read / read:.1f} times less
attention a token   {us / 1e3:.2f} ms, full attention {full_us / 1e3:.2f} ms: {full_us / us:.1f} times faster
a generated token   {token_ms(ours):.1f} ms, full attention {token_ms(full):.1f} ms
reading the text    {made['read_s']:.2f} s ({made['read_tokens_per_s']:,.0f} tokens/s), writing the file {made['write_s']:.2f} s
loading the file    {start:.3f} s (all checksums read), {made['read_s'] / start:,.0f} times faster than reading the text again
first answer token  {first:.3f} s after opening, the question of {mean(ours, 'question_tokens'):.0f} tokens included; the model itself loads in {ours['engine_s']:.2f} s""")


def main(folder: Path, ours: str, baseline: str) -> int:
    load = lambda name: json.loads((folder / name).read_text())
    asked, made = load("haystack.txt.json"), load("compress.json")
    arms = {arm: load(f"{arm}.json") for arm in (ours, "full", baseline)}
    right = print_answers(asked, arms)
    print_numbers(made, arms[ours], arms["full"])
    if (folder / "compress_full.json").exists():
        print_files({ours: made, "full": load("compress_full.json"), baseline: load(f"compress_{baseline}.json")})
    wrong = []
    if right[ours] < len(asked) - LOSSY.get(ours, 0):
        wrong.append(f"{len(asked) - right[ours]} answers from the compressed file are wrong")
    if right[baseline] > 0:
        wrong.append(f"{BASELINES[baseline]} found {right[baseline]} passcodes, so the test says nothing")
    good = "all answers right" if right[ours] == len(asked) else f"{right[ours]} of {len(asked)} answers right"
    print("\n" + ("demo: FAILED: " + "; ".join(wrong) if wrong else f"demo: {good}; {BASELINES[baseline]} find none"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
