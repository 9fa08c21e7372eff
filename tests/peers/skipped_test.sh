#!/usr/bin/env bash
# skipped_test.sh PYTHON RUN MEGAMOE FOLDER: where no peer can be had, MegaMoE is still timed, and each peer is skipped
# with a reason and a remedy. An empty folder stands in for a machine without network.
set -euo pipefail
python="$1" run="$2" megamoe="$3" folder="$4"

rm -rf "$folder"
mkdir -p "$folder/no-wheels"
text="$("$python" "$run" --wheels "$folder/no-wheels" --folder "$folder" --megamoe "$megamoe" \
  --shape 256,128,4,2 --format bf16 --tokens 1 --threads 1)"
printf '%s\n' "$text"

expect() { grep -qE "$1" <<<"$text" || { echo "the output must have a line like '$1' (got none)" >&2; exit 1; }; }
expect '^ *1  MegaMoE +BF16 +[0-9.e+-]+ '
expect '^skipped: ggml: .+; .+'
expect '^skipped: kt-kernel: .+; .+'
