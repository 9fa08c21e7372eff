# Configuring and building presets. Sourced by ./dev.

# configure PRESET [CMAKE_ARGS...]: quiet unless it fails.
configure() {
  local preset="$1" log
  shift
  # A machine that only runs the demo lacks some of what the tests need; they come in as soon as it is there.
  local tests=ON
  [ -z "$(missing_packages libgtest-dev libboost-context-dev)" ] || tests=OFF
  mkdir -p "build/$preset"
  log="build/$preset/configure.log"
  if ! cmake --preset "$preset" -DMM_BUILD_TESTS="$tests" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    fail "configuring preset $preset failed; the log stands above and in $log"
  fi
}

# build_targets PRESET [TARGET...]: everything when no target is named.
build_targets() {
  local preset="$1"
  shift
  local args=(--build "build/$preset" --parallel "$(num_jobs)")
  [ $# -eq 0 ] || args+=(--target "$@")
  cmake "${args[@]}"
}
