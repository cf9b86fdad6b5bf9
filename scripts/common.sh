# Sourced by the other scripts; $0 is theirs.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Parallel compilers: one a core, but no more than memory holds (a LibTorch translation unit takes up to 3 GB).
build_jobs() {
  cores=$(nproc)
  by_memory=$(awk '/MemAvailable/ { print int($2 / 3145728) }' /proc/meminfo)
  if [ "$by_memory" -lt 1 ]; then by_memory=1; fi
  if [ "$by_memory" -lt "$cores" ]; then echo "$by_memory"; else echo "$cores"; fi
}
