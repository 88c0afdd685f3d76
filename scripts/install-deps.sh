#!/usr/bin/env bash
# Installs what building and testing needs, from Debian's (or Ubuntu's) own packages. Does nothing when
# all of them are there.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config git
  libsystemc-dev libyaml-cpp-dev libboost-test-dev libeigen3-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev libsqlite3-dev libbenchmark-dev
)
# Report pages are tested in a browser, sweeps on a Slurm of one node. Where a distribution has no such package, or a
# machine cannot install it, these tests are absent and the configuration of the build says so.
tests_only=(chromium nodejs slurmctld slurmd slurm-client munge)

missing_of() {
  local package state
  for package in "$@"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || echo "$package"
  done
}
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t missing_tests < <(missing_of "${tests_only[@]}")
if [ "${#missing[@]}" -eq 0 ] && [ "${#missing_tests[@]}" -eq 0 ]; then
  exit 0
fi

echo "Installing: ${missing[*]} ${missing_tests[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Not root and no sudo: install these packages by hand: ${missing[*]} ${missing_tests[*]}" >&2
    [ "${#missing[@]}" -eq 0 ] && exit 0 || exit 1
  fi
  as_root=(sudo)
fi

# "${as_root[@]+...}" keeps `set -u` quiet about an empty array in old shells.
apt() {
  "${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null
}
apt update || [ "${#missing[@]}" -eq 0 ]
[ "${#missing[@]}" -eq 0 ] || apt install -y --no-install-recommends "${missing[@]}"
for package in "${missing_tests[@]}"; do
  apt install -y --no-install-recommends "$package" || echo "Without $package the tests that need it are absent." >&2
done
