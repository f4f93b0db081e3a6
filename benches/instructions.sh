#!/usr/bin/env bash
# Instructions a record, counted by callgrind: they don't wobble with the machine's load, as times do.
#
#   benches/instructions.sh [CODEC…]      without a codec: all of them
#
# Each work of instructions.rs runs twice, on less and on more records; the difference of the two totals over the difference of the records is
# the figure, so that start-up, and making the data, cancel out. The kernel's instructions are not in it. Needs valgrind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v valgrind >/dev/null || { echo 'instructions.sh: valgrind is missing (Debian: apt-get install valgrind)' >&2; exit 1; }
codecs=("$@")
((${#codecs[@]})) || codecs=(none gzip snappy lz4 zstd)
# Thousands of records; the topics that `serve` has are of these sizes.
small=10 large=110

cargo build -q --release -p ottla-benches --bin instructions
program=${CARGO_TARGET_DIR:-target}/release/instructions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The broker of `read`. It ends when its input does, whatever becomes of this script.
coproc broker { "$program" serve; }
read -r -u "${broker[0]}" address

# count WORK CODEC N…: prints the instructions and the records of one run.
count() {
  local records total
  records=$(valgrind -q --tool=callgrind --callgrind-out-file="$work/out" "$program" "$@")
  total=$(awk '$1 == "summary:" || $1 == "totals:" { total = $2 } END { print total }' "$work/out")
  [[ -n $total ]] || { echo "instructions.sh: callgrind gave no total for $*" >&2; exit 1; }
  echo "$total $records"
}

# a_record WORK CODEC [ADDRESS]
a_record() {
  local few many
  few=$(count "$1" "$2" "$small" "${@:3}")
  many=$(count "$1" "$2" "$large" "${@:3}")
  awk -v few="$few" -v many="$many" 'BEGIN { split(few, f); split(many, m); printf "%.1f", (m[1] - f[1]) / (m[2] - f[2]) }'
}

echo '| codec | walk | keep | read |'
echo '|---|---|---|---|'
for codec in "${codecs[@]}"; do
  echo "| $codec | $(a_record walk "$codec") | $(a_record keep "$codec") | $(a_record read "$codec" "$address") |"
done
