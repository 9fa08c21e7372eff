# `./dev test`: every test as a named step, with a summary. Sourced by ./dev.

# Steps in the order they run: cheap verdicts first, then the release build that later steps reuse.
readonly kSteps="format build house_rules unit cases mpi install asan tsan fuzz tidy"
readonly kFuzzSeconds=15
# What the sanitizer builds cover: the folders of tests/ that exercise raw bytes, and those that share memory. Not emu: Debian's
# Boost.Context does not tell a sanitizer when it switches stacks, and the emulator has one thread.
readonly kAsanFolders="flow formats cpu_kernels topology layer c_api"
readonly kTsanFolders="flow layer topology"
# Too large for shadow memory, and its point is an offset that the release build tests.
readonly kNotSanitized=LargeOffsets

step_format() { check_format; }

step_build() {
  configure cpu-release -DMM_WERROR=ON
  build_targets cpu-release
}

step_house_rules() { check_house_rules; }

# GoogleTest cases of every module, the C ABI program and the nvcc compile test.
step_unit() {
  ctest --test-dir build/cpu-release --output-on-failure --no-tests=error --parallel "$(num_jobs)"
}

# The case table against the FP64 reference.
step_cases() { build/cpu-release/bin/megamoe check --backend cpu --suite full; }

# One layer with one process per rank over one shared window: right, and the bits of four ranks in one process.
step_mpi() {
  local megamoe=build/cpu-release/bin/megamoe data=data/tiny-moe out=build/mpi-step format
  mkdir -p "$out"
  for format in fp8 mxfp4; do
    local args=(--model "$data/$format.safetensors" --layer 1 --tokens "$data/probe.safetensors" --threads 1)
    mpirun -n 4 "$megamoe" run --group mpi "${args[@]}" --check --out "$out/$format-mpi.safetensors" </dev/null
    "$megamoe" run --ranks 4 "${args[@]}" --out "$out/$format-threads.safetensors" >"$out/$format-threads.txt"
    cmp "$out/$format-mpi.safetensors" "$out/$format-threads.safetensors"
    say "$format: processes and threads give the same bits"
  done
}

# A stranger's project against an installed tree: CMake package, pkg-config, and the programs run.
step_install() {
  local prefix="$PWD/build/install" work="$PWD/build/consumer"
  rm -rf "$prefix" "$work"
  cmake --install build/cpu-release --prefix "$prefix" >/dev/null
  cmake -S examples -B "$work" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  cmake --build "$work"
  "$work/minimal"
  local pc_path
  pc_path="$(dirname "$(find "$prefix" -name megamoe.pc)")"
  # shellcheck disable=SC2046  # pkg-config prints a list of words
  cc -std=c99 -pedantic -Wall -Werror examples/minimal.c -o "$work/minimal_c" \
    $(PKG_CONFIG_PATH="$pc_path" pkg-config --cflags --libs megamoe)
  "$work/minimal_c"
}

# sanitized_tests PRESET FOLDER...: builds and runs the tests of these folders of tests/.
sanitized_tests() {
  local preset="$1" folder targets=()
  shift
  configure "$preset" -DMM_BUILD_CLI=OFF
  for folder in "$@"; do
    [ -d "build/$preset/tests/$folder" ] || fail "tests/$folder must exist (got none); edit the list in tools/dev/test.sh"
    targets+=("tests/$folder/all")
  done
  without_aslr build_targets "$preset" "${targets[@]}"
  for folder in "$@"; do
    without_aslr ctest --test-dir "build/$preset/tests/$folder" --output-on-failure --no-tests=error \
      --exclude-regex "$kNotSanitized" --parallel "$(num_jobs)"
  done
}

# The sanitizers of GCC 12 and clang 14 cannot map their shadow under the widest address randomisation of new kernels.
without_aslr() {
  if setarch "$(uname -m)" -R true 2>/dev/null; then
    ( export -f build_targets num_jobs; setarch "$(uname -m)" -R bash -c '"$@"' bash "$@" )
  else
    "$@"
  fi
}

# shellcheck disable=SC2086  # lists of words
step_asan() { ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 sanitized_tests cpu-asan $kAsanFolders; }

step_tsan() { TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 sanitized_tests cpu-tsan $kTsanFolders; }

# Each libFuzzer target for a short while from its seeds; what it finds stays in the build folder.
step_fuzz() {
  local target name folder=build/cpu-fuzz
  configure cpu-fuzz -DMM_BUILD_TESTS=OFF
  build_targets cpu-fuzz tests/fuzz/all
  compgen -G "$folder/bin/fuzz_*" >/dev/null || fail "the fuzz build must give bin/fuzz_* (got none)"
  for target in "$folder"/bin/fuzz_*; do
    name="$(basename "$target")"
    mkdir -p "$folder/corpus/$name"
    say "-- $name, $kFuzzSeconds s"
    without_aslr "$target" -max_total_time="$kFuzzSeconds" -timeout=10 -verbosity=0 -print_final_stats=1 \
      -artifact_prefix="$folder/$name-" "$folder/corpus/$name" "tests/fuzz/seeds/${name#fuzz_}" \
      >"$folder/$name.log" 2>&1 || {
      tail -n 40 "$folder/$name.log"
      fail "$name found an input that breaks its rule; it stands in $folder/$name-*"
    }
    grep -E 'number_of_executed_units|new_units_added|peak_rss' "$folder/$name.log"
  done
}

step_tidy() { check_tidy; }

# run_step NAME: runs it in a shell of its own where any failing line ends it, and notes verdict and seconds.
run_step() {
  local name="$1" start=$SECONDS verdict=ok
  say "" "" "==== $name"
  set +e
  (set -e; "step_$name")
  [ $? -eq 0 ] || verdict=FAILED
  set -e
  summary+="$(printf '  %-12s %-7s %4d s' "$name" "$verdict" $((SECONDS - start)))"$'\n'
  [ "$verdict" = ok ] || num_failed=$((num_failed + 1))
}

# run_tests [STEP...]: all steps without arguments; `list` names them.
run_tests() {
  local name steps="${*:-$kSteps}" summary="" num_failed=0
  if [ "$steps" = list ]; then
    say "$kSteps"
    return
  fi
  for name in $steps; do
    [[ " $kSteps " == *" $name "* ]] || fail "step must be one of $kSteps (got $name); ./dev test runs all"
  done
  setup test
  for name in $steps; do run_step "$name"; done
  say "" "==== summary"
  printf '%s' "$summary"
  [ "$num_failed" -eq 0 ] || fail "$num_failed step(s) failed; run one alone with ./dev test STEP"
  say "all steps passed"
}
