#!/usr/bin/env bash
# Every end-to-end figure of docs/performance.md, both sides measured in this run.
#   scripts/bench.sh [MODEL_DIR] [TRIALS]      run it on an otherwise idle machine
set -euo pipefail
cd "$(dirname "$0")/.."
model=${1:-models/nano}
trials=${2:-24}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --preset release >/dev/null
cmake --build --preset release --target vestige end_to_end_bench -j "$(nproc)" | tail -n 1
lscpu | sed -n 's/^Model name: */cpu: /p; s/^CPU(s): */cpus: /p'
python3 scripts/make_haystack.py "$work/haystack.txt"
question=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[0]["question"])' "$work/haystack.txt.json")
build/bench/end_to_end_bench "$model" "$work/haystack.txt" "$question"

build/tools/vestige compress -m "$model" -i "$work/haystack.txt" -o "$work/haystack.vctx" >/dev/null
python3 - "$model" "$work/haystack.vctx" "$question" <<'PY'
import json, os, resource, subprocess, sys
model, path, question = sys.argv[1:]
vestige = "build/tools/vestige"
weights = json.loads(subprocess.run([vestige, "inspect", model, "--json"], capture_output=True, check=True).stdout)["weight_bytes"]
process = subprocess.Popen([vestige, "ask", path, question], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
assert status == 0, status
peak, size = usage.ru_maxrss * 1024, os.path.getsize(path)
print(f"peak memory of ask       {peak / 1e6:8.1f} MB - {weights / 1e6:.1f} MB of weights = {(peak - weights) / 1e6:.1f} MB, "
      f"file {size / 1e6:.1f} MB: {(peak - weights) / size:.2f} times")
PY

python3 scripts/make_haystack.py --plain --bytes 400000 --seed 7 "$work/filler.txt"
build/tools/vestige eval -m "$model" --tasks needle --policies vestige,streaming,random --lengths 8192 --trials "$trials" --corpus "$work/filler.txt"
