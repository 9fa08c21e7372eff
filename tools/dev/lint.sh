# Formatting, clang-tidy and the rules of the house that a script can check. Sourced by ./dev.

readonly kMaxFileLines=450
# Files that clang-tidy reads on every run; what differs from HEAD is added.
readonly kTidyFiles="src/host/c_convert.cpp src/host/status.cpp src/host/names.cpp"

format_in_place() { source_files | xargs -r clang-format -i; }

check_format() { source_files | xargs -r clang-format --dry-run -Werror; }

# tidy [FILE...]: needs build/cpu-release/compile_commands.json; files that no target compiles are passed over.
check_tidy() {
  local files file compiled=()
  [ -f build/cpu-release/compile_commands.json ] || configure cpu-release
  if [ $# -gt 0 ]; then
    files="$*"
  else
    files="$kTidyFiles $(git diff --name-only --diff-filter=d HEAD -- '*.cpp' 2>/dev/null || true)"
  fi
  for file in $files; do
    if grep -q "\"file\": \".*/$file\"" build/cpu-release/compile_commands.json; then compiled+=("$file"); fi
  done
  [ "${#compiled[@]}" -gt 0 ] || fail "clang-tidy was given no file that build/cpu-release compiles (got $files)"
  printf '%s\n' "${compiled[@]}" | sort -u |
    xargs -n 1 -P "$(num_jobs)" clang-tidy --quiet -p build/cpu-release --warnings-as-errors='*' \
      --extra-arg=-Wno-unknown-warning-option 2>/dev/null # the commands are g++'s
}

# Every file short enough to be read in one sitting; data and generated files are not read.
check_file_lengths() {
  local file num_lines num_long=0
  while IFS= read -r file; do
    num_lines="$(wc -l <"$file")"
    if [ "$num_lines" -gt "$kMaxFileLines" ]; then
      say "$file: a file must have at most $kMaxFileLines lines (got $num_lines); split it"
      num_long=$((num_long + 1))
    fi
  done < <(project_files | grep -E '(\.(c|h|cpp|hpp|cu|cuh|cmake|sh|md)|CMakeLists\.txt|^dev)$' | grep -vE '^docs/memory\.md$')
  [ "$num_long" -eq 0 ]
}

# tagged_names TAG: the names in `// TAG(name)` comments under src/.
tagged_names() { grep -rhoE "// $1\([A-Za-z0-9_]+\)" src | sed -E 's|.*\((.*)\)|\1|' | sort -u; }

# Every release write names the acquire read that waits for it, and the other way round.
check_publish_pairs() {
  local lonely
  lonely="$(comm -23 <(tagged_names publish) <(tagged_names consume) | sed 's/.*/publish(&) has no consume(&)/')
$(comm -13 <(tagged_names publish) <(tagged_names consume) | sed 's/.*/consume(&) has no publish(&)/')"
  lonely="$(grep . <<<"$lonely" || true)"
  [ -z "$lonely" ] || say "$lonely"
  [ -z "$lonely" ]
}

# The words that would admit unfinished work.
check_unfinished_words() {
  local hits
  hits="$(source_files | xargs -r grep -nE '\b(TODO|FIXME|XXX|HACK)\b' || true)"
  [ -z "$hits" ] || say "$hits"
  [ -z "$hits" ]
}

check_readme_commands() {
  local command
  for command in './dev demo' './dev test'; do
    grep -qF "$command" README.md || fail "README.md must name the command $command; add it"
  done
}

# Runs every check even when an early one fails, so that one run shows everything.
check_house_rules() {
  local check num_failed=0
  for check in check_file_lengths check_publish_pairs check_unfinished_words check_readme_commands; do
    ("$check") || { say "failed: $check"; num_failed=$((num_failed + 1)); }
  done
  [ "$num_failed" -eq 0 ]
}

lint() {
  check_format
  check_house_rules
  check_tidy "$@"
  say "lint: clean"
}
