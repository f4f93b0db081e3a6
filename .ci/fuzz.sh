#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs fuzz targets (default: all of fuzz/fuzz_targets) for so long each, FUZZ_JOBS (2) at a time, on
# the stable toolchain.
#
# The targets are cargo-fuzz's; it is not needed here: its part is the flags below (coverage feedback, checks that a
# release build leaves out). The seeds are made of the vectors in protocol/testdata, fuzz/seeds/TARGET; what libFuzzer adds
# goes to fuzz/corpus/TARGET, a finding to fuzz/artifacts/TARGET. FUZZ_SEED is libFuzzer's -seed, 0 for another one each time.
#
# Memory: libFuzzer looks at the whole process once a second; what a single input may take, the targets check themselves.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?seconds}
shift
targets=("$@")
((${#targets[@]})) || for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
for target in "${targets[@]}"; do
  [[ -e fuzz/fuzz_targets/$target.rs ]] || { echo "fuzz: no target $target in fuzz/fuzz_targets" >&2; exit 1; }
done
jobs=${FUZZ_JOBS:-2}

host=$(rustc -vV | awk '/^host: / { print $2 }')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
# --target keeps the flags away from build scripts.
cargo build -q --manifest-path fuzz/Cargo.toml --release --target "$host" --bins
built=fuzz/target/$host/release

rm -rf fuzz/seeds
"$built/seeds" protocol/testdata fuzz/seeds

# fuzz TARGET: one run; what it says at its end, or all of its last words.
fuzz() {
  local target=$1 log
  mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target" "fuzz/seeds/$target"
  log=$(mktemp)
  if ! "$built/$target" -max_total_time="$seconds" -seed="${FUZZ_SEED:-0}" -timeout=10 -rss_limit_mb=512 -print_final_stats=1 \
    -artifact_prefix="fuzz/artifacts/$target/" "fuzz/corpus/$target" "fuzz/seeds/$target" >"$log" 2>&1; then
    { tail -n 60 "$log"; echo "fuzz: $target found something: see fuzz/artifacts/$target"; } >&2
    rm -f "$log"
    return 1
  fi
  awk -v target="$target" '/^stat::number_of_executed_units/ { units = $2 } /^stat::peak_rss_mb/ { mb = $2 }
    / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") coverage = $(i + 1) }
    END { printf "%-34s %11d inputs, coverage %5d, peak %4d MiB\n", target, units, coverage, mb }' "$log"
  rm -f "$log"
}

echo "${#targets[@]} targets for $seconds s each, $jobs at a time"
found=0 running=0
for target in "${targets[@]}"; do
  if ((running == jobs)); then
    wait -n || found=1
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
for ((; running > 0; running--)); do wait -n || found=1; done
exit "$found"
