#!/usr/bin/env bash
# check_wgmma_sass.sh INCLUDE_FLAGS...
# Compiles the wgmma layer for sm_90a and reads the machine code: the instructions that were meant, none serialised, and
# nothing that the layer adds. Exit status 77 means skipped: there is no nvcc on this machine.
set -euo pipefail
source_folder="$(dirname "${BASH_SOURCE[0]}")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

[ -x "$MM_NVCC" ] || { echo "skipped: no nvcc"; exit 77; }
# compile SOURCE CUBIN INCLUDE_FLAGS...
compile() {
  "$MM_NVCC" -std=c++20 -gencode=arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Werror all-warnings \
    -cubin "$1" -o "$2" "${@:3}" 2>&1 | tee -a "$work/log"
}
compile "$source_folder/wgmma_device.cu" "$work/wgmma.cubin" "$@"
compile "$source_folder/../../tools/record/gemm_recorder.cu" "$work/gemm.cubin" "$@"
if grep -qiE 'serializ|injected' "$work/log"; then
  echo "ptxas serialises wgmma or waits for it early (see above)" >&2
  exit 1
fi
echo "compiled every n for sm_90a with $("$MM_NVCC" --version | grep -o 'release [0-9.]*'), nothing serialised"

[ -x "$MM_CUOBJDUMP" ] || { echo "no cuobjdump here: machine code not read"; exit 0; }
PATH="$(dirname "$MM_CUOBJDUMP"):$PATH"
"$MM_CUOBJDUMP" -sass "$work/wgmma.cubin" >"$work/sass"
"$MM_CUOBJDUMP" -sass "$work/gemm.cubin" >"$work/gemm"

fail() {
  echo "$1" >&2
  exit 1
}

# count FILE PATTERN
count() { grep -cE "$2" "$1" || true; }

# function_code NAME: one kernel's instructions, without addresses and encodings.
function_code() {
  sed -n "/Function : $1\$/,/Function : /p" "$work/sass" | grep -oE '/\*[0-9a-f]{4,}\*/ +[^/]*;' |
    sed -E 's|^/\*[^*]*\*/ +||'
}

for n in $(seq 8 8 256); do
  for kind in "QGMMA.64x${n}x32.F32.E4M3.E4M3" "HGMMA.64x${n}x16.F32.BF16"; do
    # From shared memory both operands are one pair of descriptors; A in registers shows as a register, here negated.
    [ "$(count "$work/sass" "$kind R[0-9]+, gdesc")" -ge 1 ] || fail "no $kind with A in shared memory"
    [ "$(count "$work/sass" "$kind R[0-9]+, -R[0-9]+, gdesc")" -ge 1 ] || fail "no $kind with A in registers"
  done
done

function_code main_loop >"$work/main_loop"
[ "$(count "$work/main_loop" 'QGMMA\.64x128x32')" -eq 8 ] || fail "main_loop must hold 8 QGMMA"
[ "$(count "$work/main_loop" 'WARPGROUP\.ARRIVE')" -eq 2 ] || fail "main_loop must arrive twice"
[ "$(count "$work/main_loop" 'LDL|STL')" -eq 0 ] || fail "main_loop spills"

[ "$(count "$work/gemm" 'QGMMA\.64x96x32')" -eq 4 ] || fail "the recorded GEMM must hold 4 QGMMA"
[ "$(count "$work/gemm" 'LDL|STL')" -eq 0 ] || fail "the recorded GEMM spills"

function_code by_layer >"$work/by_layer"
function_code by_hand >"$work/by_hand"
[ "$(count "$work/by_hand" 'QGMMA')" -eq 1 ] || fail "by_hand was not read"
diff "$work/by_hand" "$work/by_layer" || fail "the layer changes the machine code"
echo "machine code as meant: $(count "$work/sass" '[QH]GMMA\.') GMMA instructions, layer and bare PTX alike"
