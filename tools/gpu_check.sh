#!/usr/bin/env bash
# Builds Rushlight without network or oneDNN and runs the GPU tests, then the GPU benchmarks.
#
#   tools/gpu_check.sh [folder for results]
#   SANITIZE=1 tools/gpu_check.sh    also runs the kernels under NVIDIA's compute-sanitizer (slow)
#
# Needs: an NVIDIA GPU with its driver, CUDA's libraries (wheels or system), g++, CMake, Ninja, and a
# Python with nanobind, PyYAML, NumPy, pytest and hypothesis (PYTHON names it).
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
OUT=${1:-build/gpu_results}
BUILD=${BUILD:-build/gpu}
mkdir -p "$OUT"

cmake -S . -B "$BUILD" -G Ninja -DPython_EXECUTABLE="$(command -v "$PYTHON")" \
  -DRUSHLIGHT_INPLACE=ON -DRUSHLIGHT_ONEDNN=OFF > "$OUT/cmake.log" 2>&1 \
  || { cat "$OUT/cmake.log"; exit 1; }
ninja -C "$BUILD" > "$OUT/build.log" 2>&1 || { grep -E "error|FAILED" "$OUT/build.log"; exit 1; }

export PYTHONPATH=$PWD
if [ "${SANITIZE:-0}" = 1 ]; then
  # Reads and writes outside of memory, races in shared memory, barriers that not all threads reach, in
  # our kernels (NVIDIA's own have divergent barriers): on a share of the tests, all of them would take
  # hours. Without the host's backtraces, which keep Python's frames and so their tensors alive.
  SANITIZER=$(command -v compute-sanitizer || ls -d /usr/local/cuda*/bin/compute-sanitizer | tail -1)
  for tool in memcheck racecheck synccheck; do
    RUSHLIGHT_TEST_PART=${SANITIZE_PART:-0/40} "$SANITIZER" --tool "$tool" --error-exitcode 9 \
      --kernel-name kernel_substring=rush --report-api-errors no --show-backtrace device \
      --print-limit 20 --target-processes application-only \
      "$PYTHON" -m pytest tests/cuda -q -p no:cacheprovider \
      -k "not sharing and not loader and not side_by_side and not huge and not polynomial" \
      2>&1 | tee "$OUT/sanitize_$tool.log" | tail -30
  done
fi
"$PYTHON" -m pytest tests/cuda -q -p no:cacheprovider 2>&1 | tee "$OUT/tests.log"
# With TORCH_PYTHON, a Python that has PyTorch, its times stand beside ours.
"$PYTHON" benchmarks/bench_cuda.py 2>&1 | tee "$OUT/ops.log"
"$PYTHON" benchmarks/cuda_bandwidth.py 2>&1 | tee "$OUT/bandwidth.log"
"$PYTHON" benchmarks/table1.py --device cuda ${TORCH_PYTHON:+--peer "$TORCH_PYTHON"} \
  --batch 128 64 64 64 128 1048576 --steps 5 --rounds 5 2>&1 | tee "$OUT/models.log"
"$PYTHON" benchmarks/cuda_timeline.py --report --out "$OUT" 2>&1 | tee "$OUT/timeline.log"
"$PYTHON" benchmarks/ablation.py --device cuda --batch 128 64 64 64 128 1048576 --rounds 3 2>&1 \
  | tee "$OUT/ablation.log"
