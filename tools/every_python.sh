#!/usr/bin/env bash
# Runs the tests on every Python that the library is for and that is found here, or on those given.
#
#   make test-pythons                PYTHONS="python3.12 python3.13" for these alone, TARGET=test without the slow ones
#
# Each has a clone below build/pythons with an environment of its own, kept for the next time. What is committed is
# tried, so that a file which was forgotten is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || mapfile -t pythons < <(python3 tools/wheels/build.py --list)

failed=()
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import platform; print(platform.python_version())')
  tree=build/pythons/$version
  [ -d "$tree" ] || git clone --quiet --shared . "$tree"
  git -C "$tree" fetch --quiet origin HEAD
  git -C "$tree" checkout --quiet --force --detach FETCH_HEAD
  echo "== Python $version"
  make --no-print-directory -C "$tree" PYTHON="$python" "${TARGET:-test-all}" || failed+=("$version")
done
echo "== ${#pythons[@]} Pythons tried${failed[*]:+; tests failed on ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
