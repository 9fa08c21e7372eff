#!/usr/bin/env bash
# compare_digests.sh clang|nvcc HOST_DIGEST INCLUDE_FLAGS...
# Compiles the digest program with another compiler and compares what it prints with the build's own HOST_DIGEST.
# Exit status 77 means skipped: the compiler is not on this machine.
set -euo pipefail
source_folder="$(dirname "${BASH_SOURCE[0]}")"
compiler="$1" host_digest="$2"
shift 2

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$host_digest" >"$work/expected"

skip() {
  echo "skipped: $1"
  exit 77
}

case "$compiler" in
  clang)
    [ -x "$MM_CLANGXX" ] || skip "no clang++"
    "$MM_CLANGXX" -std=c++20 -O2 -Wall -Wextra -Werror -ffp-contract=off "$@" "$source_folder/host_digest.cpp" \
      -o "$work/digest"
    "$work/digest" >"$work/actual"
    ;;
  nvcc)
    [ -x "$MM_NVCC" ] || skip "no nvcc"
    "$MM_NVCC" -std=c++20 -arch=sm_90a -Werror all-warnings -Xcompiler -ffp-contract=off "$@" \
      "$source_folder/device_digest.cu" -o "$work/digest"
    echo "compiled for sm_90a with $("$MM_NVCC" --version | grep -o 'release [0-9.]*')"
    status=0
    "$work/digest" >"$work/actual" || status=$?
    if [ "$status" -eq 77 ]; then
      echo "no device here: compiled, not run"
      exit 0
    fi
    [ "$status" -eq 0 ] || exit "$status"
    ;;
  *)
    echo "compiler must be clang or nvcc (got $compiler); see tests/flow_nvcc/CMakeLists.txt" >&2
    exit 2
    ;;
esac
diff "$work/expected" "$work/actual"
echo "$(wc -l <"$work/expected") digests agree"
