#!/usr/bin/env bash
# Installs what building and testing needs, from Debian's (or Ubuntu's) own packages. Does nothing when
# all of them are there.
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config git
  libsystemc-dev libyaml-cpp-dev libboost-test-dev libeigen3-dev libcli11-dev libfmt-dev
  nlohmann-json3-dev libsqlite3-dev libbenchmark-dev
)

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi

echo "Installing: ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Not root and no sudo: install these packages by hand: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# "${as_root[@]+...}" keeps `set -u` quiet about an empty array in old shells.
"${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" </dev/null
