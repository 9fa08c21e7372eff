# `./dev emu-soak`: every case of the kernels under the emulator, thousands of interleavings each. Sourced by ./dev.

# What one process runs before it reports; as many run at once as there are cores.
readonly kSoakChunk=250
# Test programs whose cases loop over seeds (tests/emu/seeds.hpp), and the cases in them that do not: planted faults.
readonly kSoakPrograms="cuda_sync_test sm90_flow_test emu_test"
readonly kNotSoaked='*Broken*:TimeOut.AWaitThatIsOverGoesOn:Pipeline.EachOmissionIsFoundInEveryInterleaving'

# soak_cases PROGRAM FILTER: the full names of its cases, one a line.
soak_cases() {
  local filter="$2"
  if [ "$1" = emu_test ] && [ "$filter" = '*' ]; then filter='Pipeline.*'; fi
  "build/cpu-release/bin/$1" --gtest_list_tests --gtest_filter="$filter-$kNotSoaked" |
    awk '/^Running main/ {next} /^[^ ]/ {suite = $1} /^ / {print suite $1}'
}

# show_progress TEXT: overwrites itself on a terminal.
show_progress() {
  if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; fi
}

# soak_case PROGRAM CASE FIRST COUNT: false at the first finding, with its text.
soak_case() {
  local program="$1" case="$2" next="$3" end=$(($3 + $4)) start=$SECONDS i count pids
  while [ "$next" -lt "$end" ]; do
    pids=()
    for ((i = 0; i < $(num_jobs) && next < end; ++i)); do
      count=$((end - next < kSoakChunk ? end - next : kSoakChunk))
      MM_EMU_FIRST_SEED="$next" MM_EMU_SEEDS="$count" "build/cpu-release/bin/$program" --gtest_filter="$case" \
        >"build/emu-soak/$i.log" 2>&1 &
      pids+=($!)
      next=$((next + count))
    done
    for i in "${!pids[@]}"; do
      wait "${pids[$i]}" && continue
      show_progress ''
      say "$case:"
      grep -vE '^(\[|Note: |Running main)' "build/emu-soak/$i.log"
      wait
      return 1
    done
    show_progress "  $case: $((next - $3)) of $4 seeds"
  done
  show_progress ''
  printf '  %-64s %6d seeds clean %5d s\n' "$case" "$4" $((SECONDS - start))
}

# emu_soak [FILTER]: FILTER is GoogleTest's and picks cases. MM_EMU_SEEDS and MM_EMU_FIRST_SEED choose other seeds.
emu_soak() {
  local filter="${1:-*}" num_seeds="${MM_EMU_SEEDS:-5000}" first_seed="${MM_EMU_FIRST_SEED:-1}" num_cases=0 program case
  setup test
  configure cpu-release
  # shellcheck disable=SC2086  # a list of words
  build_targets cpu-release $kSoakPrograms
  mkdir -p build/emu-soak
  for program in $kSoakPrograms; do
    while IFS= read -r case; do
      soak_case "$program" "$case" "$first_seed" "$num_seeds" </dev/null ||
        fail "an interleaving breaks $case; its line 'replay: ...' above is the command that shows it again"
      num_cases=$((num_cases + 1))
    done < <(soak_cases "$program" "$filter")
  done
  [ "$num_cases" -gt 0 ] || fail "the filter must pick a case of $kSoakPrograms (got $filter); ./dev emu-soak runs all"
  say "emu-soak: $num_cases cases, $num_seeds seeds each from seed $first_seed on: clean"
}
