#!/usr/bin/env bash
# Runs every fuzzer for some seconds: run.sh SECONDS [target...]. `make fuzz` sets what it needs.
#
# FUZZ_PYTHON: a Python with atheris, for the readers in Python (readers.py). BUILD: a build folder, whose objects
# the C++ fuzzer (program_file.cpp) is linked from; the readers are compiled again by clang, with coverage and ASan.
# What was found lies in build/fuzz/<target> as crash-*, hang-* or oom-*, for `readers.py TARGET FILE`.
set -euo pipefail
cd "$(dirname "$0")/../.."
SECONDS_EACH=${1:-60}
[ "$SECONDS_EACH" != 0 ] || SECONDS_EACH=60
shift || true
BUILD=${BUILD:-build/dev}
# Before 16 it has no std::source_location.
CLANG=${CLANG:-$(compgen -c clang++ | grep -E "^clang\+\+-(1[6-9]|[2-9][0-9])$" | sort -V | tail -1 || true)}
export CLANG=${CLANG:-clang++}
TARGETS=("$@")
[ ${#TARGETS[@]} != 0 ] || TARGETS=(program pickle pt legacy safetensors header torchscript onnx index)
OUT=$PWD/build/fuzz
mkdir -p "$OUT"
OPTIONS=(-max_total_time="$SECONDS_EACH" -timeout=60 -rss_limit_mb=4096 -print_final_stats=1)

# The readers of program files: what a file's bytes decide.
READERS=(archive json program_file program_json safetensors function_json function_verify type)

build_program() {
  local flags=(-std=c++20 -O1 -g -fPIC -Icsrc -I"$BUILD/generated" -DNDEBUG -DRUSH_VERSION='"fuzz"' -fopenmp=libgomp
    -fsanitize=address,fuzzer-no-link -Wno-everything)
  local folder=$OUT/objects name
  mkdir -p "$folder"
  printf '%s\n' "${READERS[@]}" | xargs -P "${JOBS:-2}" -I{} bash -c \
    '[ "$0/{}.o" -nt "csrc/jit/{}.cpp" ] || "$CLANG" "${@:1}" -c "csrc/jit/{}.cpp" -o "$0/{}.o"' "$folder" "${flags[@]}"
  "$CLANG" "${flags[@]}" -c tools/fuzz/program_file.cpp -o "$folder/target.o"
  # The library's other objects, in the order that it is linked in.
  local objects=()
  while read -r name; do
    case $name in
      */csrc/jit/*) for reader in "${READERS[@]}"; do [[ $name != */jit/$reader.cpp.o ]] || continue 2; done ;;
    esac
    objects+=("$BUILD/$name")
  done < <(ninja_inputs | grep '\.o$')
  "$CLANG" -fsanitize=address,fuzzer "$folder"/*.o "${objects[@]}" -o "$OUT/program_file" -lgomp -lpthread -ldl
}

ninja_inputs() {
  local ninja
  ninja=$(command -v ninja || echo "$PWD/.venv/bin/ninja")
  "$ninja" -C "$BUILD" -t query "$(cd "$BUILD" && "$ninja" -t targets all | sed -n 's/^\(.*librushlight\.so\): CXX_SHARED.*/\1/p' \
    | head -1)" | sed -n '/input:/,/outputs:/s/^    //p'
}

failed=0
for target in "${TARGETS[@]}"; do
  folder=$OUT/$target
  mkdir -p "$folder/inputs"
  echo "== $target"
  if [ "$target" = program ]; then
    command -v "$CLANG" > /dev/null || { echo "no clang++: left out"; continue; }
    build_program
    "$FUZZ_PYTHON" tools/fuzz/program_seeds.py "$folder/inputs" "$OUT/valid.rush"
    command=("$OUT/program_file")
    export FUZZ_PROGRAM=$OUT/valid.rush ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0:detect_odr_violation=0
  else
    command=("$FUZZ_PYTHON" tools/fuzz/readers.py "$target")
  fi
  "${command[@]}" "${OPTIONS[@]}" -artifact_prefix="$folder/" "$folder/inputs" > "$folder/log" 2>&1 || {
    failed=1
    tail -25 "$folder/log"
  }
  grep -E "^(Done|stat::number_of_executed_units)" "$folder/log" || true
done
exit $failed
