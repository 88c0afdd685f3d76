#!/usr/bin/env bash
# Prints how fast the model is, on one core. Run by hand; needs a release build (scripts/demo.sh makes one).
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/release/sc_main/kernbench
[ -x "$program" ] || { echo "build first: cmake --preset release && cmake --build --preset release" >&2; exit 2; }

row() {  # WHAT ARGUMENTS...
  local what=$1
  shift
  local summary
  summary=$(taskset -c 0 "$program" run "$@" --log off --json)
  printf '%-58s %s\n' "$what" "$(grep -o '"latency_ns": [0-9.]*\|"wall_s": [0-9.]*\|"tile_stages": [0-9]*\|"activations": [0-9]*\|"peak_rss_mb": [0-9.]*\|"[a-z]*_share_of_slice": [0-9.]*' <<<"$summary" | tr '\n' ' ')"
}
row "gemm 4096 x 4096 x 4096, one PE (10 s, 300 MiB)" --topology topologies/one_pe.yaml --bench gemm \
  --set bench.M=4096 --set bench.K=4096 --set bench.N=4096
row "gemm 512 x 512 x 512 on each of 256 PEs (5 s, 500 MiB)" --topology topologies/default.yaml --bench gemm --set bench.pes=256
row "decode 1 Mi tokens, 64 PEs, composite_extended (10 s, 1 GiB)" --topology topologies/eight_cubes.yaml --bench gqa-decode-long \
  --set bench.C=8 --set bench.P=8 --set bench.S_kv=1048576 --set bench.variant=composite_extended
row "the same, 4 reads outstanding (run >= 88 %, stream >= 95 %)" --topology topologies/eight_cubes.yaml --bench gqa-decode-long \
  --set bench.C=8 --set bench.P=8 --set bench.S_kv=1048576 --set bench.variant=composite_extended --set pe.dma.outstanding=4
row "decode 128 Ki tokens, 64 PEs, primitive (30 s)" --topology topologies/eight_cubes.yaml --bench gqa-decode-long \
  --set bench.C=8 --set bench.P=8 --set bench.S_kv=131072 --set bench.variant=primitive
for bench in build/release/benchmarks/bench_*; do
  [ -x "$bench" ] && { echo; echo "$(basename "$bench")"; "$bench"; }
done
