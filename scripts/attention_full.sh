#!/usr/bin/env bash
# The full lists of attention in data mode, one parameter at a time around a middle point, and the long decodes: every
# length, head shape, dimension, type, layout, placement, input kind, number of PEs and of queries, in every case and
# variant; the tests cover their pairs, this runs the lists. Prints each run that is wrong, then a count.
#
#   scripts/attention_full.sh [KERNBENCH [JOBS [PART]]]      PART: lists, long, or all (default)
#
# `long` is decode on 8 cubes x 8 PEs: data mode to 131,072 tokens and timing mode to 1,048,576, all five variants,
# with what each takes and what limits it (about three minutes). Exit code: 0 when every run is right, else 1.
set -euo pipefail
cd "$(dirname "$0")/.."

kernbench=${1:-build/release/sc_main/kernbench}
jobs=${2:-$(nproc)}
part=${3:-all}
[ -x "$kernbench" ] || { echo "$kernbench: not found; build it or name it" >&2; exit 2; }
case $part in lists | long | all) ;; *) echo "PART: found '$part'; allowed: lists, long, all" >&2; exit 2 ;; esac

lengths="1 3 7 63 64 65 96 160 1000 4097 65535 65536 65537"
queries="1 5 31 32 33 128"
head_shapes="8:8 1:8 8:1 3:2"     # G:H_kv of H_q/H_kv = 64/8 8/8 8/1 6/2, as G x H_kv
dims="64 80 128"
types="f16 bf16 f32"

# One line per run: machine, bench, then key=value pairs; later pairs win.
decode() {
  local base=$1 variant v
  shift
  for variant in primitive opt2 hybrid composite composite_extended; do echo "$base variant=$variant $*"; done
}
prefill() {
  local base=$1 variant
  shift
  for variant in primitive hybrid opt2; do echo "$base variant=$variant $*"; done
}
list() {
  local v bench n t
  local long="one_cube gqa-decode-long P=8 H_kv=2 G=3 d=64 S_kv=1000"
  local short="one_cube gqa-decode-short H_kv=5 G=3 d=64 S_kv=160 kv_per_cube=2"
  local pre="one_cube gqa-prefill-short H_kv=2 G=3 d=64 S_kv=1000 T_q=33"
  local ring="eight_cubes gqa-prefill-long C=3 H_kv=2 G=3 d=64 S_kv=1000 T_q=128"
  for v in $lengths; do
    decode "one_pe gqa-decode-long H_kv=1 G=2 d=64" "S_kv=$v"
    decode "$long" "S_kv=$v"
    decode "$short" "S_kv=$v"
    if [ "$v" -le 4097 ]; then
      for t in $queries; do
        [ "$t" -le "$v" ] || continue
        prefill "$pre" "S_kv=$v T_q=$t"
        prefill "$ring" "S_kv=$v T_q=$t"
      done
    fi
  done
  for v in $head_shapes; do
    for bench in "$long" "$short"; do decode "$bench" "G=${v%:*} H_kv=${v#*:}"; done
    for bench in "$pre" "$ring"; do prefill "$bench" "G=${v%:*} H_kv=${v#*:}"; done
  done
  for v in d=1 d=257 $(printf 'd=%s ' $dims) $(printf 'dtype=%s ' $types) k_layout=sd k_layout=ds \
    placement=round_robin placement=contiguous placement=zigzag inputs=normal inputs=peaky inputs=ones inputs=integers \
    reduce=tree reduce=chain tile=16 tile=100 request_id=11; do
    for t in $types; do
      for bench in "$long" "$short"; do decode "$bench" "dtype=$t $v"; done
      for bench in "$pre" "$ring"; do prefill "$bench" "dtype=$t $v"; done
    done
  done
  for n in 1 2 3 4 5 6 7 8; do
    decode "$long" "P=$n"
    decode "eight_cubes gqa-decode-long H_kv=2 G=3 d=64 S_kv=1000 P=8" "C=$n"
    decode "eight_cubes gqa-decode-short H_kv=17 G=3 d=64 S_kv=160 kv_per_cube=2" "C=$n"
    prefill "$ring" "C=$n"
    for v in contiguous zigzag round_robin; do prefill "$ring" "C=$n placement=$v causal=false"; done
  done
  for v in 9 12 16; do decode "default gqa-decode-long H_kv=2 G=3 d=64 S_kv=1000 P=8" "C=$v"; done
}

run_one() {  # MACHINE BENCH KEY=VALUE...
  local machine=$1 bench=$2 settings=() p out
  shift 2
  local -A given=()
  for p in "$@"; do given[${p%%=*}]=${p#*=}; done
  for p in "${!given[@]}"; do settings+=(--set "bench.$p=${given[$p]}"); done
  if out=$("$kernbench" run --topology "topologies/$machine.yaml" --bench "$bench" --mode data "${settings[@]}" 2>&1); then
    echo ok
  else
    echo "WRONG ($?): $machine $bench $*"
    echo "$out" | tail -3 | sed 's/^/  /'
  fi
}
export -f run_one
export kernbench

wrong=0
if [ "$part" != long ]; then
  results=$(mktemp)
  trap 'rm -f "$results"' EXIT
  list | xargs -P "$jobs" -I{} bash -c 'run_one $1' _ {} | tee "$results" | grep --line-buffered -v '^ok$' || true
  wrong=$(grep -c '^WRONG' "$results" || true)
  echo "$(grep -c '^ok$' "$results" || true) runs right, $wrong wrong"
fi

long_run() {  # MODE TOKENS VARIANT
  local out
  if out=$("$kernbench" run --topology topologies/eight_cubes.yaml --bench gqa-decode-long --mode "$1" --log off \
    --set bench.C=8 --set bench.P=8 --set "bench.S_kv=$2" --set "bench.variant=$3" 2>&1); then
    printf '%-7s %8s %-19s ' "$1" "$2" "$3"
    grep -E '^latency |^ +limited|^numerics' <<<"$out" | sed 's/^ *//' | tr '\n' ' '
    echo
  else
    echo "WRONG ($?): $*"
    echo "$out" | tail -3 | sed 's/^/  /'
    wrong=$((wrong + 1))
  fi
}
if [ "$part" != lists ]; then
  for variant in primitive opt2 hybrid composite composite_extended; do
    for tokens in 1024 16384 131072; do long_run data "$tokens" "$variant"; done
    for tokens in 131072 1048576; do long_run timing "$tokens" "$variant"; done
  done
fi
[ "$wrong" -eq 0 ]
