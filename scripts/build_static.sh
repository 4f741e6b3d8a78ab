#!/usr/bin/env bash
# Builds build-static/tools/vestige without any shared library, to be carried to a machine that has none of ours.
#   scripts/build_static.sh
# Debian ships no libhwy.a, so the two files of Highway's source package that hold code we call are compiled here.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build-static
mkdir -p "$build/hwy/lists/partial"

if [[ ! -f $build/hwy/libhwy.a ]]; then
  echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" >"$build/hwy/sources.list"
  apt_here=(apt-get -o "Dir::Etc::sourcelist=$build/hwy/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$build/hwy/lists" -qq)
  (cd "$build/hwy" && "${apt_here[@]}" update && "${apt_here[@]}" source --download-only highway)
  tar -xzf "$build"/hwy/highway_*.orig.tar.gz -C "$build/hwy" --strip-components=1
  for source in targets per_target; do
    [[ -f $build/hwy/hwy/$source.cc ]] && c++ -O2 -std=c++17 -I"$build/hwy" -c "$build/hwy/hwy/$source.cc" -o "$build/hwy/$source.o"
  done
  ar rcs "$build/hwy/libhwy.a" "$build"/hwy/*.o
fi

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVESTIGE_STATIC=ON -DVESTIGE_BUILD_TESTS=OFF -DVESTIGE_BUILD_BENCH=OFF \
  "-DCMAKE_LIBRARY_PATH=$build/hwy" >/dev/null
cmake --build "$build" --target vestige -j "$(nproc)" | tail -n 1
file -L "$build/tools/vestige" 2>/dev/null || true
"$build/tools/vestige" --version
