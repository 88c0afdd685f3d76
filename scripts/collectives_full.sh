#!/usr/bin/env bash
# The full lists of collectives in data mode: every algorithm, operation, world, size, number of slots and memory of the
# slots; the tests cover them against each other, this runs their product. Prints each run that is wrong, then a count.
#
#   scripts/collectives_full.sh [KERNBENCH [JOBS [PATTERN]]]
#
# PATTERN (an extended regular expression) picks the runs whose line matches, such as 'algo=tree .*world=64 '.
# About 5000 runs of a second each on average.
# Exit code: 0 when every run is right, else 1.
set -euo pipefail
cd "$(dirname "$0")/.."

kernbench=${1:-build/release/sc_main/kernbench}
jobs=${2:-$(nproc)}
pattern=${3:-.}
[ -x "$kernbench" ] || { echo "$kernbench: not found; build it or name it" >&2; exit 2; }

# The smallest shipped machine that holds a world.
topology_of() {
  if [ "$1" -le 8 ]; then echo one_cube; elif [ "$1" -le 64 ]; then echo eight_cubes; else echo default; fi
}

# One line per run: the topology, then key=value pairs.
list() {
  local algo world n slots kind op payload sips inputs topology
  for algo in ring_1d mesh tree; do
    for world in 1 2 3 4 7 8 64 128 256; do
      topology=$(topology_of "$world")
      for n in 1 3 32 1000 49152; do
        for inputs in normal integers; do
          for slots in 1 2 4; do
            for kind in tcm sram hbm; do
              echo "$topology algo=$algo world=$world n_elem=$n slots=$slots buffer_kind=$kind inputs=$inputs"
            done
          done
        done
        for op in reduce_scatter all_gather broadcast reduce_to_root; do
          for payload in tcm hbm; do
            echo "$topology op=$op algo=$algo world=$world n_elem=$n payload=$payload inputs=integers"
          done
        done
        echo "$topology algo=$algo world=$world n_elem=$n payload=hbm inputs=normal"
      done
    done
  done
  for n in 1 3 32 1000 49152; do
    for payload in tcm hbm; do
      for op in all_reduce reduce_scatter all_gather broadcast reduce_to_root; do
        for sips in 1 2; do
          echo "default op=$op algo=hierarchical world=$sips n_elem=$n payload=$payload inputs=integers"
        done
        for kind in torus_2d ring_1d mesh_2d_no_wrap switch; do
          for sips in 1 2 3 4 5 6; do
            echo "six_sips@$kind op=$op algo=hierarchical world=$sips n_elem=$n payload=$payload inputs=integers"
          done
        done
      done
    done
  done
  # The slot-refill fault of the seed design: 256 ranks over two SIPs, 4 slots, small messages, fast credits.
  for n in 32 8192; do
    for credit in 0 16; do
      for inputs in normal integers; do
        echo "default+pe.ipcq.credit_bytes=$credit algo=ring_1d world=256 n_elem=$n slots=4 inputs=$inputs"
      done
    done
  done
}

run_one() {
  local spec=$1; shift
  local topology=${spec%%[@+]*}
  local settings=()
  case $spec in
    *@*) settings+=(--set "system.fabric.kind=${spec#*@}")
         case $spec in *@torus_2d | *@mesh_2d_no_wrap) ;; *) settings+=(--set "system.fabric.shape=[6, 1]") ;; esac ;;
    *+*) settings+=(--set "${spec#*+}") ;;
  esac
  local p
  for p in "$@"; do settings+=(--set "bench.$p"); done
  if out=$("$kernbench" run --topology "topologies/$topology.yaml" --bench allreduce --mode data "${settings[@]}" 2>&1); then
    echo ok
  else
    echo "WRONG ($?): $spec $*"
    echo "$out" | tail -3 | sed 's/^/  /'
  fi
}
export -f run_one
export kernbench

results=$(mktemp)
trap 'rm -f "$results"' EXIT
list | grep -E -- "$pattern" | xargs -P "$jobs" -I{} bash -c 'run_one $1' _ {} | tee "$results" | grep -v '^ok$' || true
right=$(grep -c '^ok$' "$results" || true)
wrong=$(grep -c '^WRONG' "$results" || true)
echo "$right runs right, $wrong wrong"
[ "$wrong" -eq 0 ]
