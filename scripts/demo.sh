#!/usr/bin/env bash
# Builds the model and runs decode attention on one PE: latency, utilisation, numerics and a waveform.
# The results lie in demo-out/.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
cmake --preset release
cmake --build --preset release -j "$(nproc)" --target kernbench

exec build/release/sc_main/kernbench run \
  --topology topologies/one_pe.yaml \
  --bench gqa-decode-long \
  --mode data \
  --set bench.S_kv=4096 --set bench.G=8 --set bench.d=128 \
  --trace vcd \
  --out demo-out
