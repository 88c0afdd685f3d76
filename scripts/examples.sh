#!/usr/bin/env bash
# Builds and runs the examples as a user would: installs the release build into build/install and builds the consumer
# project under examples/ against it.
#
#   scripts/examples.sh [host_cpu|external_memory|own_engine|own_kernel|back_to_back]...    default: all
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-deps.sh
cmake --preset release
cmake --build --preset release --target kernbench
cmake --install build/release --prefix build/install
cmake -S examples -B build/examples -DCMAKE_PREFIX_PATH="$PWD/build/install"
cmake --build build/examples
filter=$(IFS='|'; echo "$*")
SYSTEMC_DISABLE_COPYRIGHT_MESSAGE=1 ctest --test-dir build/examples --verbose --no-tests=error -R "^(${filter:-.*})\$"
