#!/usr/bin/env bash
# Builds the program with gcc -O2 and with clang -O0 and compares op logs and tensors byte for byte. Run by hand:
# it compiles everything twice.
set -euo pipefail
cd "$(dirname "$0")/.."
./scripts/install-deps.sh
command -v clang++ >/dev/null || { echo "clang++: not found; install the package clang" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build() {  # NAME COMPILER FLAGS
  echo "building with $2 $3"
  if ! { cmake -S . -B "$work/$1" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$2" -DCMAKE_CXX_FLAGS="$3" \
           -DKB_TESTS=OFF -DKB_UNITY=ON && ninja -C "$work/$1" kernbench; } >"$work/$1.log" 2>&1; then
    tail -n 40 "$work/$1.log" >&2
    exit 1
  fi
}
build gcc g++ -O2
build clang clang++ -O0

differ=0
compare() {  # NAME ARGUMENTS...
  local name=$1
  shift
  for compiler in gcc clang; do
    "$work/$compiler/sc_main/kernbench" run "$@" --mode data --dump --out "$work/out-$compiler-$name" >/dev/null
  done
  if diff -r -q --exclude=summary.json "$work/out-gcc-$name" "$work/out-clang-$name"; then
    echo "$name: op log and tensors are the same bytes"
  else
    differ=1
  fi
}
for variant in primitive opt2 hybrid composite composite_extended; do
  compare "decode-$variant" --topology topologies/one_cube.yaml --bench gqa-decode-long --set bench.S_kv=1000 --set "bench.variant=$variant"
done
for dtype in f16 bf16 f32; do
  compare "gemm-$dtype" --topology topologies/one_pe.yaml --bench gemm --set bench.M=100 --set "bench.dtype=$dtype"
done
exit $differ
