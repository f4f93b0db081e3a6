#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET…]: runs fuzz targets (default: all of fuzz/fuzz_targets) for so long each, on the stable toolchain.
#
# The targets are cargo-fuzz's; it is not needed here: its part is the flags below (coverage feedback, checks that a
# release build leaves out). Seeds are read from fuzz/seeds/TARGET where there are any; what libFuzzer adds goes to
# fuzz/corpus/TARGET, a finding to fuzz/artifacts/TARGET.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:?seconds}
shift
targets=("$@")
((${#targets[@]})) || for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
[[ -e fuzz/fuzz_targets/${targets[0]}.rs ]] || { echo "fuzz: no target ${targets[0]} in fuzz/fuzz_targets" >&2; exit 1; }

host=$(rustc -vV | awk '/^host: / { print $2 }')
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1"
# --target keeps the flags away from build scripts.
cargo build -q --manifest-path fuzz/Cargo.toml --release --target "$host" --bins

for target in "${targets[@]}"; do
  printf '%s fuzz %s for %s s\n' -- "$target" "$seconds"
  mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
  corpus=("fuzz/corpus/$target")
  [[ -d fuzz/seeds/$target ]] && corpus+=("fuzz/seeds/$target")
  log=$(mktemp)
  if ! "fuzz/target/$host/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="fuzz/artifacts/$target/" "${corpus[@]}" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    echo "fuzz: $target found something: see fuzz/artifacts/$target" >&2
    exit 1
  fi
  grep -E '^stat::(number_of_executed_units|peak_rss_mb)|^Done' "$log"
  rm -f "$log"
done
