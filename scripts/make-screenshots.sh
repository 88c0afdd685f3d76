#!/usr/bin/env bash
# Makes the pictures in docs/images/ from real runs:
#
#   scripts/make-screenshots.sh [KERNBENCH]
#
# Needs Node.js and Chromium for the report pages; with gtkwave, xvfb and imagemagick installed also the waveform.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${1:-build/release/sc_main/kernbench}")
images=docs/images
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$images"

"$program" run --topology topologies/eight_cubes.yaml --bench gqa-decode-long --out "$work/run" --trace vcd \
  --set bench.S_kv=8192 --set bench.C=8 --set bench.P=8 --set bench.variant=composite_extended >/dev/null
"$program" report "$work/run"
# For the waveform one PE over half a microsecond, so that names can be read.
"$program" run --topology topologies/one_cube.yaml --bench gqa-decode-long --out "$work/wave" --trace vcd \
  --trace-scope "*.pe0.*" --trace-window 150:450 --set bench.S_kv=4096 --set bench.P=8 >/dev/null

cat >"$work/sweep.yaml" <<SPEC
topology: $PWD/topologies/one_pe.yaml
bench: gemm
set: {bench.M: 32, bench.N: 128}
grid:
  bench.K: [64, 128, 256, 512, 1024, 2048, 4096]
  pe.dma.outstanding: [1, 2, 4]
SPEC
"$program" sweep "$work/sweep.yaml" --out "$work/sweep" >/dev/null
"$program" report "$work/sweep"

node tests/report/screenshots.mjs "$images" \
  "$work/run/report.html=report-overview:overview" "$work/run/report.html=report-path:path" "$work/run/report.html=report-stalls:stalls" \
  "$work/run/report.html=report-timeline:timeline" "$work/run/report.html=report-roofline:roofline" \
  "$work/run/report.html=report-map:map" "$work/sweep/report.html=report-sweep:curves"

if ! command -v gtkwave >/dev/null || ! command -v xvfb-run >/dev/null || ! command -v import >/dev/null; then
  echo "no picture of the waveform: needs gtkwave, xvfb and imagemagick" >&2
  exit 0
fi
xvfb-run --auto-servernum --server-args="-screen 0 1280x900x24" bash -c '
  gtkwave --rcvar "splash_disable on" --rcvar "initial_window_x 1276" --rcvar "initial_window_y 880" "$1/wave/trace.vcd" "$1/wave/trace.gtkw" >/dev/null 2>&1 &
  viewer=$!
  sleep 12
  import -window root "$2/gtkwave.png"
  kill "$viewer"
' -- "$work" "$images"
echo "$images/gtkwave.png"
