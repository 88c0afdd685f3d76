#!/usr/bin/env bash
# Runs a command beside a Slurm of one node, brought up for it on this machine and taken down afterwards:
#
#   with_slurm.sh COMMAND [ARGUMENT]...
#
# Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge. Everything lies in a folder of its own;
# no service of the machine is touched. Exits with 77 when it cannot be brought up, else as the command does.
set -euo pipefail

skip() {
  echo "skipped: $1" >&2
  exit 77
}

export PATH="$PATH:/usr/sbin:/sbin"
for program in munged slurmctld slurmd sbatch scontrol; do
  command -v "$program" >/dev/null || skip "no $program (Debian: slurmctld slurmd slurm-client munge)"
done
[ "$(id -u)" -eq 0 ] || skip "a private Slurm needs root"

dir=$(mktemp -d /tmp/kernbench-slurm-XXXXXX)
chmod 755 "$dir"
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap finish EXIT

mkdir "$dir/munge" "$dir/state" "$dir/spool"
chmod 700 "$dir/munge"
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge/key")
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/munge.socket" \
  --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >/dev/null 2>&1 &
pids+=($!)

# Ports that nobody else uses: from this process's number.
port=$((20000 + $$ % 20000))
host=$(hostname -s)
cat >"$dir/slurm.conf" <<CONF
ClusterName=kernbench
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=batch Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$dir/slurm.conf"

for _ in $(seq 50); do [ -S "$dir/munge.socket" ] && break; sleep 0.1; done
slurmctld -D -c -i -f "$SLURM_CONF" >"$dir/ctld.out" 2>&1 &
pids+=($!)
slurmd -D -c -f "$SLURM_CONF" -N "$host" >"$dir/slurmd.out" 2>&1 &
pids+=($!)

for _ in $(seq 100); do
  state=$(timeout 5 sinfo -h -o %t 2>/dev/null || true)
  [ "$state" = idle ] && break
  sleep 0.2
done
if [ "${state:-}" != idle ]; then
  tail -n 5 "$dir"/*.log "$dir"/*.out >&2 || true
  skip "the node did not come up (state '${state:-none}')"
fi

"$@"
