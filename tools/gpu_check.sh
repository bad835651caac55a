#!/usr/bin/env bash
# Builds Rushlight without network or oneDNN, runs the GPU tests, then the GPU benchmarks, part by part.
#
#   tools/gpu_check.sh [--list] [--part NAME]... [folder for results]
#
# A part that has finished leaves the commit's id in <folder>/done, and later calls at the same commit
# (and with the same changes to it) pass over it: call again after an interruption, and the rest runs.
# What matters most comes first. --list prints the parts, and which are done; --part runs one, or all
# that begin so (`--part table1`), after the build. The hostile-calls part (tests/campaign) and the sanitize-*
# parts, the kernels under NVIDIA's compute-sanitizer (slow), run only when asked for by --part, or with SANITIZE=1.
#
# Needs: an NVIDIA GPU with its driver, CUDA's libraries (wheels or system), g++, CMake, Ninja, and a
# Python with nanobind, PyYAML, NumPy, pytest and hypothesis (PYTHON names it). With TORCH_PYTHON, a
# Python that has PyTorch, its times stand beside ours.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
BUILD=${BUILD:-build/gpu}

# Table 1's models, each with its batch.
MODELS=(resnet50:64 gnmt_v2:128 alexnet:128 vgg19:64 mobilenet_v2:64 ncf:1048576)
SHARES=4 # of the tests, so that each part ends in some minutes
PARTS=(build)
for ((i = 1; i <= SHARES; i++)); do PARTS+=("tests-$i"); done
for model in "${MODELS[@]}"; do PARTS+=("table1-${model%:*}"); done
for kind in small large network sequences orders matrices; do PARTS+=("ops-$kind"); done
PARTS+=(bandwidth timeline)
for model in "${MODELS[@]}"; do PARTS+=("ablation-${model%:*}"); done
EXTRA=(hostile-calls sanitize-memcheck sanitize-racecheck sanitize-synccheck)

batch_of() {
  local model
  for model in "${MODELS[@]}"; do [ "${model%:*}" != "$1" ] || echo "${model#*:}"; done
}

run_part() {
  local name=${1#*-}
  case $1 in
    build)
      cmake -S . -B "$BUILD" -G Ninja -DPython_EXECUTABLE="$(command -v "$PYTHON")" \
        -DRUSHLIGHT_INPLACE=ON -DRUSHLIGHT_ONEDNN=OFF > "$OUT/cmake.log" 2>&1 \
        || { cat "$OUT/cmake.log"; return 1; }
      ninja -C "$BUILD" package > "$OUT/ninja.log" 2>&1 \
        || { grep -E "error|FAILED" "$OUT/ninja.log"; return 1; }
      ;;
    tests-*)
      RUSHLIGHT_TEST_PART=$((name - 1))/$SHARES "$PYTHON" -m pytest tests/cuda -q -p no:cacheprovider
      ;;
    table1-*)
      "$PYTHON" benchmarks/table1.py --device cuda ${TORCH_PYTHON:+--peer "$TORCH_PYTHON"} \
        --model "$name" --batch "$(batch_of "$name")" --steps 5 --rounds 5
      ;;
    ops-*) "$PYTHON" benchmarks/bench_cuda.py --only "$name" --rows "$OUT/ops.json" ;;
    bandwidth) "$PYTHON" benchmarks/cuda_bandwidth.py ;;
    timeline) "$PYTHON" benchmarks/cuda_timeline.py --report --out "$OUT" ;;
    ablation-*)
      "$PYTHON" benchmarks/ablation.py --device cuda --model "$name" --batch "$(batch_of "$name")" --rounds 3
      ;;
    hostile-calls) # tests/campaign, on the GPU, compared with the CPU, a share under compute-sanitizer
      "$PYTHON" tests/campaign/run.py --device cuda --calls "${HOSTILE_CALLS:-20000}" --jobs "${JOBS:-$(nproc)}" \
        --checked "${HOSTILE_CHECKED:-2}" --seconds "${HOSTILE_SECONDS:-0}" --report "$OUT/hostile.jsonl"
      ;;
    sanitize-*)
      # Reads and writes outside of memory, races in shared memory, barriers that not all threads
      # reach, in our kernels (NVIDIA's own have divergent barriers): on a share of the tests, all of
      # them would take hours. Without the host's backtraces, which keep Python's frames and so their
      # tensors alive.
      local sanitizer
      sanitizer=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer | tail -1)
      RUSHLIGHT_TEST_PART=${SANITIZE_PART:-0/40} "$sanitizer" --tool "$name" --error-exitcode 9 \
        --kernel-name kernel_substring=rush --report-api-errors no --show-backtrace device \
        --print-limit 20 --target-processes application-only \
        "$PYTHON" -m pytest tests/cuda -q -p no:cacheprovider \
        -k "not sharing and not loader and not side_by_side and not huge and not polynomial"
      ;;
  esac
}

# The commit, and a checksum of what was changed since (but for results, which the parts write
# themselves); of all sources where there is no git.
tree_id() {
  local id changes
  if id=$(git rev-parse HEAD 2> /dev/null); then
    changes=$(git diff HEAD -- . ':!benchmarks/results'
      git ls-files --others --exclude-standard -- csrc codegen rushlight tests)
    echo "$id${changes:+ changed $(cksum <<< "$changes" | cut -d' ' -f1)}"
  else
    echo "files $(find cmake codegen csrc rushlight tests benchmarks -type f -not -name '*.so' \
      -not -name '*.py[ci]' -not -path '*/results/*' -not -path 'rushlight/lib/*' -print0 \
      | sort -z | xargs -0 cksum | cksum | cut -d' ' -f1)"
  fi
}

OUT= LIST= WANTED=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) LIST=1 ;;
    --part) WANTED+=("${2:?--part needs a name; --list prints them}"); shift ;;
    -*) echo "gpu_check: no option $1" >&2; exit 2 ;;
    *) OUT=$1 ;;
  esac
  shift
done
OUT=${OUT:-build/gpu_results}
mkdir -p "$OUT/done"
ID=$(tree_id)
is_done() { [ "$(cat "$OUT/done/$1" 2> /dev/null)" = "$ID" ]; }

if [ -n "$LIST" ]; then
  for part in "${PARTS[@]}" "${EXTRA[@]}"; do
    if is_done "$part"; then echo "$part (done)"; else echo "$part"; fi
  done
  exit
fi

CHOSEN=()
if [ ${#WANTED[@]} = 0 ]; then
  CHOSEN=("${PARTS[@]}")
  [ "${SANITIZE:-0}" != 1 ] || CHOSEN+=("${EXTRA[@]}")
fi
for wanted in "${WANTED[@]}"; do
  matched=
  for part in "${PARTS[@]}" "${EXTRA[@]}"; do
    [[ $part == "$wanted" || $part == "$wanted"-* ]] || continue
    CHOSEN+=("$part") matched=1
  done
  [ -n "$matched" ] || { echo "gpu_check: no part $wanted; --list prints them" >&2; exit 2; }
done
# The build is part of every call: Ninja knows best what is done, also after a loss of the folder.
[ "${CHOSEN[0]}" = build ] || CHOSEN=(build "${CHOSEN[@]}")

export PYTHONPATH=$PWD
for part in "${CHOSEN[@]}"; do
  if [ "$part" != build ] && is_done "$part"; then
    echo "== $part: done before; remove $OUT/done/$part to run it again"
    continue
  fi
  echo "== $part"
  rm -f "$OUT/done/$part"
  (run_part "$part") 2>&1 | tee "$OUT/$part.log"
  echo "$ID" > "$OUT/done/$part"
done
