#!/usr/bin/env bash
# Installs what building and testing Vestige needs on Debian or Ubuntu. Safe to run again; quiet when nothing is missing.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git python3 python3-venv
  libhwy-dev libopenblas-pthread-dev libeigen3-dev nlohmann-json3-dev libcli11-dev libssl-dev libxxhash-dev
  libgtest-dev libgmock-dev libbenchmark-dev clang-format
)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
done
if ((${#missing[@]})); then
  echo "setup: installing ${missing[*]}" >&2
  as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The Python side of the tests (opening a .vctx with the safetensors package) lives in a venv of the checkout.
root=$(cd "$(dirname "$0")/.." && pwd)
if [[ ${1:-} == --python ]]; then
  stamp="$root/.venv/requirements.txt"
  if ! cmp -s "$root/scripts/requirements.txt" "$stamp"; then
    python3 -m venv "$root/.venv"
    "$root/.venv/bin/pip" install -q --disable-pip-version-check -r "$root/scripts/requirements.txt"
    cp "$root/scripts/requirements.txt" "$stamp"
  fi
fi
