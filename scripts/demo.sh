#!/usr/bin/env bash
# The main job from end to end: a 32k-token text with three passcodes in it is read once and kept 32 times smaller, before any
# question exists; a new process answers from the file; the same questions under full attention and under recent rows only.
#   scripts/demo.sh [MODEL_DIR]     Fails if an answer is wrong, or if recent rows alone find one.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-models/nano}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }

scripts/setup.sh
step "build"
cmake --preset release >/dev/null
cmake --build --preset release --target vestige -j "$(nproc)" | tail -n 1
vestige=build/tools/vestige

step "a haystack with three passcodes"
python3 scripts/make_haystack.py "$work/haystack.txt"
grep -n passcode "$work/haystack.txt"

step "vestige compress --ratio 32"
"$vestige" compress -m "$model" -i "$work/haystack.txt" -o "$work/haystack.vctx" --ratio 32 --json >"$work/compress.json"
"$vestige" inspect "$work/haystack.vctx"

mapfile -t questions < <(python3 -c 'import json, sys; print(*(a["question"] for a in json.load(open(sys.argv[1]))), sep="\n")' \
  "$work/haystack.txt.json")
step "vestige ask: three questions, under the file's policy, full attention and recent rows only"
"$vestige" ask "$work/haystack.vctx" "${questions[@]}" --json >"$work/vestige.json"
"$vestige" ask "$work/haystack.vctx" "${questions[@]}" --json --policy full >"$work/full.json"
"$vestige" ask "$work/haystack.vctx" "${questions[@]}" --json --policy streaming >"$work/streaming.json"
python3 scripts/demo_report.py "$work"
