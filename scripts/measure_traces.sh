#!/usr/bin/env bash
# What recording costs, and that its memory stays flat. Takes some minutes and some gigabytes in TMPDIR:
#
#   scripts/measure_traces.sh [KERNBENCH]
#
# Two runs: the densest in records (one PE that does nothing but GEMM tiles) and a decode on 64 PEs. CPU seconds, the
# least of three, since other work on the machine only adds. Then ten million records against one million.
# Exits with 1 when --trace sqlite costs three times the run with only op_log.jsonl or more, or when a trace of ten
# times as many records takes over 10 % more memory.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "${1:-build/release/sc_main/kernbench}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

gemm=(--topology topologies/one_pe.yaml --bench gemm --set bench.M=4096 --set bench.K=2048)
decode=(--topology topologies/eight_cubes.yaml --bench gqa-decode-long --set bench.S_kv=131072 --set bench.C=8
  --set bench.P=8 --set bench.variant=primitive)

# cost ARGUMENT...: sets `seconds`, CPU of one run; `resident`, its largest memory in KB.
cost() {
  rm -rf "$work/out"
  local user system
  read -r user system resident < <({ /usr/bin/time -f '%U %S %M' "$program" run "$@" --out "$work/out" >/dev/null; } 2>&1)
  seconds=$(awk "BEGIN { print $user + $system }")
}

# least ARGUMENT...: sets `seconds` to the least of three.
least() {
  local best=
  for _ in 1 2 3; do
    cost "$@"
    if [ -z "$best" ] || awk "BEGIN { exit !($seconds < $best) }"; then best=$seconds; fi
  done
  seconds=$best
}

compare() {
  local name=$1 off log
  shift
  least "$@" --log off; off=$seconds
  least "$@"; log=$seconds
  local records
  records=$(wc -l <"$work/out/op_log.jsonl")
  echo "$name: $records records"
  printf '  %-22s%8.2f s\n' "nothing recorded" "$off"
  printf '  %-22s%8.2f s  %5.2f x\n' "op_log.jsonl" "$log" "$(awk "BEGIN { print $log / $off }")"
  for trace in sqlite vcd perfetto; do
    least "$@" --trace "$trace"
    local ratio
    ratio=$(awk "BEGIN { print $seconds / $log }")
    printf '  %-22s%8.2f s  %5.2f x the run with op_log.jsonl alone\n' "+ $trace" "$seconds" "$ratio"
    if [ "$trace" = sqlite ] && awk "BEGIN { exit !($ratio >= 3) }"; then
      echo "  sqlite costs too much"
      bad=1
    fi
  done
}

compare "decode on 64 PEs" "${decode[@]}"
compare "GEMM on one PE" "${gemm[@]}" --set bench.N=2048

echo "largest memory in KB"
printf '  %-12s%10s%10s\n' trace "1 M" "10 M records"
for trace in none sqlite vcd perfetto; do
  options=()
  [ "$trace" = none ] || options=(--trace "$trace")
  cost "${gemm[@]}" --set bench.N=2560 "${options[@]+"${options[@]}"}"
  small=$resident
  few=$(wc -l <"$work/out/op_log.jsonl")
  cost "${gemm[@]}" --set bench.N=25600 "${options[@]+"${options[@]}"}"
  many=$(wc -l <"$work/out/op_log.jsonl")
  printf '  %-12s%10d%10d  %+.1f %%  (%d and %d records)\n' "$trace" "$small" "$resident" \
    "$(awk "BEGIN { print 100 * ($resident - $small) / $small }")" "$few" "$many"
  if awk "BEGIN { exit !($resident > 1.1 * $small) }"; then
    echo "  memory grows"
    bad=1
  fi
done
exit "$bad"
