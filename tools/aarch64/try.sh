#!/usr/bin/env bash
# Builds the library for aarch64 and runs its C++ tests and a part of the Python tests under qemu.
#
#   make test-aarch64             needs Debian's g++-aarch64-linux-gnu, qemu-user and debootstrap
#   TESTS="tests/nn" make test-aarch64     other Python tests
#
# AARCH64_ROOT keeps the Debian system elsewhere, SUITE names another than bookworm.
# It is about values: qemu says nothing about speed. There is no oneDNN for that processor in its wheels, so the
# portable path does all the work; its loops are vectors of 16 bytes there, which the compiler makes NEON of.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${BIN:-$PWD/.venv/bin}
build=$PWD/build/aarch64
suite=${SUITE:-bookworm}  # its glibc must be that of the cross compiler
export RUSHLIGHT_AARCH64_ROOT=${AARCH64_ROOT:-$build/root}
root=$RUSHLIGHT_AARCH64_ROOT

for tool in aarch64-linux-gnu-g++ qemu-aarch64 debootstrap; do
  command -v $tool > /dev/null || { echo "no $tool: apt-get install g++-aarch64-linux-gnu qemu-user debootstrap" >&2; exit 1; }
done

# The packages are only unpacked, nothing of theirs runs. (debootstrap wants to be root.)
if [ ! -e "$root/.unpacked" ]; then
  rm -rf "$root" && mkdir -p "$build"
  debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,libpython3-dev,libgomp1 "$suite" "$root" \
    > "$build.debootstrap.log"
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  touch "$root/.unpacked"
fi
target=$(ls "$root"/usr/bin | grep -E '^python3\.[0-9]+$')
version=${target#python}

echo "== Building for aarch64, Python $version"
"$bin/cmake" -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/aarch64/toolchain.cmake" \
  -DPython_EXECUTABLE="$bin/python" -DPython_INCLUDE_DIR="$root/usr/include/$target" \
  -DSKBUILD_SOABI="cpython-${version//./}-aarch64-linux-gnu" \
  -DRUSHLIGHT_ONEDNN=OFF -DRUSHLIGHT_KERNEL_ARCHS= -DRUSHLIGHT_TESTS=ON -DRUSHLIGHT_WERROR=OFF
"$bin/ninja" -C "$build"
# Left out: what compiles CUDA kernels for this machine and loads them, and what is about time.
"$bin/ctest" -j"$(nproc)" --output-on-failure --no-tests=error --timeout 3000 --test-dir "$build" \
  -E '^test_(cuda_(fused|fused_rows|joins|known)|late_threads)$'

# The package beside wheels for that processor: NumPy judges, as it does elsewhere.
site=$build/site
rm -rf "$site/rushlight" && mkdir -p "$site"
"$bin/python" -m pip install --quiet --disable-pip-version-check --target "$site" --upgrade --only-binary :all: \
  --implementation cp --python-version "$version" --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64 \
  --platform manylinux2014_aarch64 numpy scipy pytest hypothesis safetensors scipy-openblas32
tar --exclude='*.so' --exclude=__pycache__ --exclude=rushlight/lib -cf - rushlight | tar -C "$site" -xf -
"$bin/cmake" --install "$build" --prefix "$site" > /dev/null

tests=(${TESTS:-tests/test_smoke.py tests/test_layout.py tests/test_indexing.py tests/test_float8.py tests/test_norms.py
  tests/test_fft.py tests/nn/test_rnn.py tests/linalg tests/serialization/test_safetensors.py})
echo "== Python tests under qemu"
# A processor without SVE: qemu 7.2 gets OpenBLAS's kernels for SVE wrong.
PYTHONPATH=$site qemu-aarch64 -cpu cortex-a72 -L "$root" "$root/usr/bin/$target" -P -m pytest -q -p no:cacheprovider -m "not slow" "${tests[@]}"
