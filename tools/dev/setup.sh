# `./dev setup`: the Debian packages that a command needs. Sourced by ./dev.
# Looks before it asks: on a machine that has everything, nothing is installed and no network is needed.

# package, then how to tell that it is there: a command, or a file (pattern) that it brings.
kPackageTable="
g++                 g++
cmake               cmake
ninja-build         ninja
libfmt-dev          /usr/include/fmt/format.h
nlohmann-json3-dev  /usr/include/nlohmann/json.hpp
libcli11-dev        /usr/include/CLI/CLI.hpp
libhwloc-dev        /usr/include/hwloc.h
libgtest-dev        /usr/include/gtest/gtest.h
libboost-context-dev /usr/lib/*/libboost_context.a
ccache              ccache
pkg-config          pkg-config
libopenmpi-dev      mpicxx
openmpi-bin         mpirun
clang               clang++
libclang-rt-14-dev  /usr/lib/llvm-14/lib/clang/14*/lib/linux/libclang_rt.fuzzer-*.a
clang-format        clang-format
clang-tidy          clang-tidy
"
kDemoPackages="g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libhwloc-dev"
kLintPackages="$kDemoPackages libgtest-dev libboost-context-dev clang-format clang-tidy"
kTestPackages="$kLintPackages ccache pkg-config libopenmpi-dev openmpi-bin clang libclang-rt-14-dev"

# is_there PROBE: a path pattern matches a file, anything else is a command.
is_there() {
  case "$1" in
    /*) compgen -G "$1" >/dev/null ;;
    *) has "$1" ;;
  esac
}

# missing_packages PACKAGE...: those whose probe finds nothing.
missing_packages() {
  local package probe
  for package in "$@"; do
    probe="$(awk -v package="$package" '$1 == package {print $2}' <<<"$kPackageTable")"
    is_there "$probe" || printf '%s ' "$package"
  done
}

# install PACKAGE...: with apt when root; otherwise says the line that root must type and stops.
install_packages() {
  has apt-get || fail "these packages must be installed (got none of: $*); use your distribution's names for them"
  if [ "$(id -u)" -ne 0 ]; then
    say "These packages are missing; install them and start again:"
    say "  sudo apt-get install -y --no-install-recommends $*"
    exit 1
  fi
  say "installing: $*"
  apt-get update -qq </dev/null
  apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# setup demo|lint|test
setup() {
  local wanted missing
  case "$1" in
    demo) wanted="$kDemoPackages" ;;
    lint) wanted="$kLintPackages" ;;
    test) wanted="$kTestPackages" ;;
    *) fail "setup must be for demo, lint or test (got $1); ./dev setup test has everything" ;;
  esac
  # shellcheck disable=SC2086  # a list of words
  missing="$(missing_packages $wanted)"
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086
  install_packages $missing
  # shellcheck disable=SC2086
  missing="$(missing_packages $wanted)"
  [ -z "$missing" ] || fail "the packages were installed but these are still not found: $missing; is this Debian 12?"
}
