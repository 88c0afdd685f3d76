#!/usr/bin/env bash
# Long decode on 8 cubes x 8 PEs, 1 Ki to 1 Mi tokens, all five variants: what it costs to issue (emit) and how long it
# takes (timing), as a table and a picture.
#
#   scripts/attention_sweep.sh [OUT [KERNBENCH [JOBS]]]
#
# Writes OUT/attention_sweep.csv and OUT/attention_sweep.svg (OUT: attention-sweep), about a minute on one core. After
# an interruption the same command goes on where it stopped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-attention-sweep}
kernbench=${2:-$here/../build/release/sc_main/kernbench}
jobs=${3:-$(nproc)}
[ -x "$kernbench" ] || { echo "$kernbench: not found; build it or name it" >&2; exit 2; }

for part in dispatch latency; do
  resume=()
  [ -e "$out/$part/sweep.json" ] && resume=(--resume)
  "$kernbench" sweep "$here/attention_$part.yaml" --out "$out/$part" --jobs "$jobs" "${resume[@]}"
done
"$kernbench" plot "$out/dispatch" "$out/latency" --x bench.S_kv --series bench.variant \
  --y emit:dispatch.cycles_max_pe --y timing:latency_ns \
  --title "GQA decode on 64 PEs: dispatch and latency over the context" \
  --csv "$out/attention_sweep.csv" --out "$out/attention_sweep.svg"
