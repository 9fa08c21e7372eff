#!/usr/bin/env bash
# compile_layer.sh headers|zero_cost ALL_HEADERS_CU INCLUDE_FLAGS...
# headers: every header of src/cuda, and every instruction of the layer, compiles with nvcc for sm_90a without a warning.
# zero_cost: kernels written with the layer become the same machine code as the same kernels written by hand.
# Exit status 77 means skipped: what the test needs is not on this machine.
set -euo pipefail
source_folder="$(dirname "${BASH_SOURCE[0]}")"
what="$1" all_headers="$2"
shift 2

skip() {
  echo "skipped: $1"
  exit 77
}

[ -x "$MM_NVCC" ] || skip "no nvcc"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# cubin SOURCE OUTPUT INCLUDE_FLAGS...
cubin() {
  local source="$1" output="$2"
  shift 2
  "$MM_NVCC" -std=c++20 -arch=sm_90a -O3 -Werror all-warnings -Xcompiler -ffp-contract=off "$@" -cubin "$source" \
    -o "$output"
}

# kernels CUBIN: the names of its kernels.
kernels() { readelf -W -S "$1" 2>/dev/null | grep -oE '\.text\.[A-Za-z0-9_]+' | sed 's/^\.text\.//' | sort -u; }

# machine_code CUBIN KERNEL: the bytes of its instructions, in hexadecimal.
machine_code() { readelf -W -x ".text.$2" "$1" 2>/dev/null | awk '/^  0x/ {print $2, $3, $4, $5}'; }

case "$what" in
  headers)
    cubin "$all_headers" "$work/headers.cubin" "$@"
    cubin "$source_folder/every_instruction.cu" "$work/every_instruction.cubin" "$@"
    echo "compiled $(grep -c '^#include' "$all_headers") headers for sm_90a"
    ;;
  zero_cost)
    [ -n "$(command -v readelf)" ] || skip "no readelf"
    cubin "$source_folder/with_layer.cu" "$work/with_layer.cubin" "$@"
    cubin "$source_folder/by_hand.cu" "$work/by_hand.cubin" "$@"
    diff <(kernels "$work/with_layer.cubin") <(kernels "$work/by_hand.cubin")
    num_different=0 num_same=0
    for kernel in $(kernels "$work/with_layer.cubin"); do
      machine_code "$work/with_layer.cubin" "$kernel" >"$work/with_layer.hex"
      machine_code "$work/by_hand.cubin" "$kernel" >"$work/by_hand.hex"
      [ -s "$work/by_hand.hex" ] || { echo "$kernel has no machine code"; exit 1; }
      if cmp -s "$work/with_layer.hex" "$work/by_hand.hex"; then
        num_same=$((num_same + 1))
        continue
      fi
      num_different=$((num_different + 1))
      echo "$kernel: the layer's machine code is not the hand-written one's"
      if [ -x "$MM_CUOBJDUMP" ]; then
        diff <("$MM_CUOBJDUMP" -sass -fun "$kernel" "$work/by_hand.cubin") \
          <("$MM_CUOBJDUMP" -sass -fun "$kernel" "$work/with_layer.cubin") || true
      else
        diff "$work/by_hand.hex" "$work/with_layer.hex" | head -n 20 || true
      fi
    done
    [ "$num_same" -gt 0 ] || { echo "no kernel was compared"; exit 1; }
    [ "$num_different" -eq 0 ] || exit 1
    echo "$num_same kernels: the same machine code with the layer and by hand"
    ;;
  *)
    echo "the test must be headers or zero_cost (got $what); see tests/cuda_layer/CMakeLists.txt" >&2
    exit 2
    ;;
esac
