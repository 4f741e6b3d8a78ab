#!/usr/bin/env bash
# Installs the release build into a scratch folder and builds and runs examples/ against it, as a user of the library would.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install build --prefix "$prefix/vestige" >/dev/null
for example in examples/*/; do
  cmake -S "$example" -B "$prefix/$(basename "$example")" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix/vestige" >/dev/null
  cmake --build "$prefix/$(basename "$example")"
  "$prefix/$(basename "$example")/$(basename "$example")"
done
"$prefix/vestige/bin/vestige" --version
