#!/usr/bin/env bash
# The main job from end to end: a 32k-token text with three passcodes in it is read once and kept 32 times smaller, before any
# question exists; a new process answers from the file; the same questions under full attention and under recent rows only.
#   scripts/demo.sh [MODEL_DIR]     Fails if an answer is wrong, or if recent rows alone find one.
#   scripts/demo.sh --model gqa     The same with a Llama-type model of 8k tokens: codes (klt, 20x), every row, and SnapKV at 20x.
#                                   Fails if codes lose more than one answer of three, or if SnapKV finds one.
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-models/nano} ours=vestige baseline=streaming size=()
if [[ "${1:-}" == --model ]]; then
  [[ "${2:-}" == gqa && $# == 2 ]] || { echo "demo.sh: --model \"${2:-}\", want gqa" >&2; exit 1; }
  model=models/nano-gqa ours=klt baseline=snapkv size=(--bytes 23600)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '\n== %s\n' "$*"; }

scripts/setup.sh
step "build"
cmake --preset release >/dev/null
cmake --build --preset release --target vestige -j "$(nproc)" | tail -n 1
vestige=build/tools/vestige

step "a haystack with three passcodes"
python3 scripts/make_haystack.py "$work/haystack.txt" "${size[@]}"
grep -n passcode "$work/haystack.txt"
mapfile -t questions < <(python3 -c 'import json, sys; print(*(a["question"] for a in json.load(open(sys.argv[1]))), sep="\n")' \
  "$work/haystack.txt.json")
compress() { "$vestige" compress -m "$model" -i "$work/haystack.txt" -o "$work/$1.vctx" --json "${@:2}"; }

if [[ $ours == vestige ]]; then
  step "vestige compress --ratio 32"
  compress haystack --policy vestige --ratio 32 >"$work/compress.json"
  "$vestige" inspect "$work/haystack.vctx"
  step "vestige ask: three questions, under the file's policy, full attention and recent rows only"
  "$vestige" ask "$work/haystack.vctx" "${questions[@]}" --json >"$work/vestige.json"
  for arm in full streaming; do
    "$vestige" ask "$work/haystack.vctx" "${questions[@]}" --json --policy "$arm" >"$work/$arm.json"
  done
else
  step "vestige compress, which chooses the policy by the model"
  compress klt >"$work/compress.json"
  "$vestige" inspect "$work/klt.vctx"
  step "the same with --policy full, and with --policy snapkv --ratio 20"
  compress full --policy full --block-rows 256 >"$work/compress_full.json"
  compress snapkv --policy snapkv --ratio 20 --block-rows 256 >"$work/compress_snapkv.json"
  step "vestige ask: three questions to each of the three files"
  for arm in klt full snapkv; do
    "$vestige" ask "$work/$arm.vctx" "${questions[@]}" --json >"$work/$arm.json"
  done
fi
python3 scripts/demo_report.py "$work" "$ours" "$baseline"
