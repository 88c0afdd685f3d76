#!/usr/bin/env bash
# Configures, builds and tests each preset that is named (default: release):
#
#   scripts/test.sh [dev|release|asan|coverage]...
#
# The last line is "N passed, N failed" over all of them. A preset that does not build counts as one failure.
set -euo pipefail
cd "$(dirname "$0")/.."

[ "$#" -gt 0 ] || set -- release
scripts/install-deps.sh

jobs=$(nproc)
passed=0
failed=0

# attribute FILE NAME: an integer attribute of the <testsuite> element of a JUnit file.
attribute() {
  sed -n '/<testsuite/,/>/p' "$1" | tr '\n' ' ' | sed -n "s/.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p"
}

for preset in "$@"; do
  echo "== $preset"
  if ! cmake --preset "$preset" || ! cmake --build --preset "$preset" -j "$jobs"; then
    echo "== $preset does not build"
    failed=$((failed + 1))
    continue
  fi
  junit="build/$preset/junit.xml"
  rm -f "$junit"
  ctest --preset "$preset" -j "$jobs" --output-junit "$PWD/$junit" || true
  if [ ! -s "$junit" ]; then
    echo "== $preset: ctest left no result"
    failed=$((failed + 1))
    continue
  fi
  total=$(attribute "$junit" tests)
  bad=$(($(attribute "$junit" failures) + $(attribute "$junit" disabled) + $(attribute "$junit" skipped)))
  if [ "$total" -eq 0 ]; then
    echo "== $preset: no test was run"
    bad=1
    total=1
  fi
  failed=$((failed + bad))
  passed=$((passed + total - bad))
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
