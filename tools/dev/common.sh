# Helpers of ./dev that every part uses. Sourced, never run.

export DEBIAN_FRONTEND=noninteractive
# Open MPI refuses root and more ranks than cores unless told twice; containers have both.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# Without this, Open MPI warns in containers that may not read each other's memory.
export OMPI_MCA_btl_vader_single_copy_mechanism=none

say() { printf "%s\n" "$@"; }

fail() {
  printf './dev: %s\n' "$*" >&2
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# Jobs for the build: one per core, but no more than memory allows at 1.5 GiB a compiler.
num_jobs() {
  local num_cores mem_kib by_memory
  num_cores="$(nproc 2>/dev/null || echo 2)"
  mem_kib="$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null || true)"
  by_memory=$((${mem_kib:-4194304} / 1572864))
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$num_cores" -lt "$by_memory" ]; then echo "$num_cores"; else echo "$by_memory"; fi
}

# Files of the project, one a line; works in an unpacked archive without git too.
project_files() {
  if git ls-files --error-unmatch dev >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard
  else
    find . \( -path ./build -o -path ./.git -o -path ./.cache \) -prune -o -type f -print | sed 's|^\./||'
  fi | sort -u | while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done
}

source_files() { project_files | grep -E '\.(c|h|cpp|hpp|cu|cuh)$'; }
