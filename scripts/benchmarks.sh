#!/usr/bin/env bash
# Prints how fast the model is, on one core: wall and CPU seconds and peak memory of whole runs beside what is allowed,
# then the component benchmarks if they are built. Run by hand on an idle machine; needs a release build
# (scripts/demo.sh makes one). Exit code: 0 when nothing is over, else 1.
set -euo pipefail
cd "$(dirname "$0")/.."
program=build/release/sc_main/kernbench
[ -x "$program" ] || { echo "build first: cmake --preset release && cmake --build --preset release" >&2; exit 2; }

over=0
row() {  # WHAT WALL_S MIB ARGUMENTS...
  local what=$1 most_s=$2 most_mib=$3 summary time latency stages rss shares
  shift 3
  TIMEFORMAT='%R %U'
  { time summary=$(taskset -c 0 "$program" run "$@" --log off --json); } 2>"$times"
  time=$(<"$times")
  value() { grep -o "\"$1\": [0-9.]*" <<<"$summary" | head -1 | grep -o '[0-9.]*$'; }
  latency=$(value latency_ns) stages=$(value tile_stages) rss=$(value peak_rss_mb)
  shares=$(for what_of in read stream; do value "${what_of}_share_of_slice" || true; done |
    awk '{ printf "%s%.1f %%", NR == 1 ? "" : " / ", 100 * $1 }')
  awk -v what="$what" -v s="${time% *}" -v cpu="${time#* }" -v most_s="$most_s" -v rss="$rss" -v most_mib="$most_mib" \
    -v latency="$latency" -v stages="$stages" -v shares="$shares" 'BEGIN {
      bad = s + 0 >= most_s || rss + 0 >= most_mib
      printf "%-52s %14.3f %8.2f (%2d) %7.2f %7.1f (%4d) %11d  %s%s\n", what, latency, s, most_s, cpu, rss, most_mib,
        stages, shares, bad ? "  OVER" : ""
      exit bad }' || over=1
}
times=$(mktemp)
trap 'rm -f "$times"' EXIT

printf '%-52s %14s %13s %7s %14s %11s  %s\n' run 'latency, ns' 'wall s (max)' 'CPU s' 'MiB (max)' 'tile stages' \
  'reads, share of the slice: run / stream'
row "gemm 4096 x 4096 x 4096, one PE" 10 300 --topology topologies/one_pe.yaml --bench gemm \
  --set bench.M=4096 --set bench.K=4096 --set bench.N=4096
row "gemm 512 x 512 x 512 on each of 256 PEs" 5 500 --topology topologies/default.yaml --bench gemm --set bench.pes=256
decode=(--topology topologies/eight_cubes.yaml --bench gqa-decode-long --set bench.C=8 --set bench.P=8)
row "decode 1 Mi tokens, 64 PEs, composite_extended" 10 1024 "${decode[@]}" \
  --set bench.S_kv=1048576 --set bench.variant=composite_extended
row "  with 4 reads outstanding (run >= 88, stream >= 95)" 10 1024 "${decode[@]}" \
  --set bench.S_kv=1048576 --set bench.variant=composite_extended --set pe.dma.outstanding=4
row "decode 128 Ki tokens, 64 PEs, primitive" 30 1024 "${decode[@]}" --set bench.S_kv=131072 --set bench.variant=primitive

shopt -s nullglob
components=(build/release/benchmarks/bench_*)
[ "${#components[@]}" -gt 0 ] || printf '\n%s\n' "component benchmarks: not built (cmake --preset release -DKB_BENCHMARKS=ON)"
for bench in "${components[@]}"; do
  [ -f "$bench" ] && [ -x "$bench" ] && { printf '\n%s\n' "$(basename "$bench")"; "$bench"; }
done
[ "$over" -eq 0 ]
