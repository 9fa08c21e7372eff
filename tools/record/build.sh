#!/usr/bin/env bash
# build.sh FOLDER: builds FOLDER/wgmma_recorder, which runs alone on any machine with an sm_90 GPU and its driver.
#
#   tools/record/build.sh build/record                                 here
#   build/record/wgmma_recorder OUT; cp OUT/*.rec data/hopper-mma/     there, and back
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: build.sh FOLDER" >&2; exit 2; }
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
nvcc="${MM_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}"
mkdir -p "$1"
"$nvcc" -std=c++20 -O2 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -cudart static \
  -Xcompiler -ffp-contract=off -Xcompiler -static-libstdc++,-static-libgcc -I"$repository/src" \
  "$repository"/tools/record/*.cu "$repository"/tools/record/*.cpp -o "$1/wgmma_recorder"
