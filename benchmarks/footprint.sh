#!/bin/sh
# What a program that deploys one model costs: time to its first result, memory, bytes on disk.
# shellcheck source=scripts/common.sh
. "$(dirname "$0")/../scripts/common.sh"

usage="Usage: benchmarks/footprint.sh [--build DIR] [--starts N] [--check] [FILE]

Prints {\"start_ms\", \"rss_mib\", \"model_bytes\", \"library_bytes\", \"start_uncached_ms\"} as JSON for the .podaq file
FILE:
  start_ms           from starting a small program until it has loaded FILE with libpodaq.so, run one sample and ended,
                     where an earlier start has left the decoded copy that podaq_model_load_cached keeps; the median
                     of N starts, the files being in memory already
  rss_mib            the most memory resident in that program (VmHWM), libraries and model included, with the copy or
                     without
  model_bytes        the size of FILE
  library_bytes      the size of libpodaq.so, stripped
  start_uncached_ms  as start_ms, but FILE is decoded, as podaq_model_load does and every first start has to
Without FILE: VGG10-1D, the network of the AMC example, int8 with 90 % of its weights zero. No trained file lies in the
repository, so it is made, with random weights.
  --build DIR  the build tree to use and bring up to date; else build/footprint, made here, without LibTorch
  --starts N   20 or more; 40 unless given
  --check      exit with 1, naming it, where a figure misses its target: start_ms below 10, memory below 8 MB plus the
               model, library at most 1 MB"

refuse() {
  printf 'footprint.sh: %s\n\n%s\n' "$1" "$usage" >&2
  exit 2
}

build="$root/build/footprint"
starts=40
check=no
model=""
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) echo "$usage" && exit 0 ;;
    --check) check=yes ;;
    --build | --starts)
      [ $# -ge 2 ] || refuse "$1 needs a value."
      if [ "$1" = --build ]; then build=$2; else starts=$2; fi
      shift
      ;;
    -*) refuse "unknown option '$1'." ;;
    *)
      [ -z "$model" ] || refuse "one FILE at a time."
      model=$1
      ;;
  esac
  shift
done
case $starts in
  *[!0-9]* | "") refuse "--starts is '$starts'; it must be a number of at least 20." ;;
esac
[ "$starts" -ge 20 ] || refuse "--starts is '$starts'; it must be a number of at least 20."
[ -z "$model" ] || [ -f "$model" ] || refuse "there is no file '$model'."

# Standard output is for the result alone.
if [ ! -f "$build/CMakeCache.txt" ]; then
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPODAQ_TRAINING=OFF -DPODAQ_TOOLS=OFF \
    -DPODAQ_TESTS=OFF -DPODAQ_EXAMPLES=OFF >&2
fi
targets="first_result measure_footprint"
if [ -z "$model" ]; then targets="$targets make_networks"; fi
# shellcheck disable=SC2086 # targets are words
cmake --build "$build" --parallel "$(build_jobs)" --target $targets >&2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
if [ -z "$model" ]; then
  "$build/bin/make_networks" "$scratch" vgg10_1d >&2
  model="$scratch/vgg10_1d_unstructured.podaq"
fi
# The decoded copy is written beside the model, so that must not be the caller's own.
cp "$model" "$scratch/measured.podaq"
strip --strip-all -o "$scratch/libpodaq.so" "$build/src/libpodaq.so"
result=$("$build/bin/measure_footprint" "$build/bin/first_result" "$scratch/measured.podaq" "$scratch/libpodaq.so" "$starts")
echo "$result"
[ $check = yes ] || exit 0

echo "$result" | tr -d '{}":,' | awk '
  function hold(name, value, limit) {
    if (value > limit) { printf "footprint.sh: %s is %s, more than %s\n", name, value, limit > "/dev/stderr"; missed = 1 }
  }
  {
    hold("start_ms", $2, 10)
    hold("rss_mib", $4, (8000000 + $6) / 1048576)
    hold("library_bytes", $8, 1000000)
  }
  END { exit missed }'
