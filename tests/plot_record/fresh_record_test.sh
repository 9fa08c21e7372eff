#!/usr/bin/env bash
# fresh_record_test.sh PYTHON PLOT MEGAMOE FOLDER: the script draws what this build's `megamoe bench --out` writes.
set -euo pipefail
python="$1" plot="$2" megamoe="$3" folder="$4"

rm -rf "$folder"
mkdir -p "$folder"
"$megamoe" bench --shape 256,128,8,2,128,128,4,1 --tokens 1,4 --repeat 1 --warmup 0 --min-time 0 --threads 1 \
  --out "$folder/record.json"
"$python" -B "$plot" "$folder/record.json" "$folder/chart.svg"
for words in '256,128,8,2, 1 ranks, fp8' '128,128,4,1, 1 ranks, fp8' 'MegaMoE, cpu: 4 tokens'; do
  grep -qF "$words" "$folder/chart.svg" || { echo "the chart must have '$words' (got none)" >&2; exit 1; }
done
