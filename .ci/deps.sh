#!/usr/bin/env bash
# What the crates may depend on. Arguments go to cargo.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wrong=0
complain() { printf 'deps: %s\n' "$*" >&2; wrong=1; }

# names PACKAGE [CARGO ARGS]: the crates that PACKAGE is built from, itself included, one a line.
names() { cargo tree -p "$@" --prefix none | awk '{ print $1 }' | sort -u; }
# forbid WHAT LIST NAME…: complains about each NAME in LIST, the names of WHAT.
forbid() {
  local what=$1 list=$2 name
  shift 2
  for name in "$@"; do
    if grep -qx "$name" <<<"$list"; then complain "$what depends on $name"; fi
  done
}

# No librdkafka, nowhere, and no OpenSSL either. The lock file also has what other platforms and features would need.
forbid 'the workspace' "$(awk -F'"' '/^name = / { print $2 }' Cargo.lock)" rdkafka rdkafka-sys openssl openssl-sys native-tls

# The wire layer is plain functions, and not a cover for somebody else's.
forbid ottla-protocol "$(names ottla-protocol "$@" -e normal --all-features)" tokio mio socket2 rand kafka-protocol

# Without features it builds without a C compiler.
for library in protocol client stream; do
  forbid "ottla-$library without features" "$(names "ottla-$library" "$@" -e normal,build --no-default-features)" cc cmake zstd-sys
done

# Licences: every alternative of an OR is enough, every part of an AND is needed. The list is deny.toml's.
allowed=$(awk '/^\[/ { inside = $0 == "[licenses]" } inside && /^ *"/ { gsub(/^ *"|",?.*$/, ""); print }' deny.toml)
[[ -n $allowed ]] || complain 'deny.toml allows no licence'
unknown=$(cargo tree "$@" --workspace -e normal,build --prefix none --format '{p}|{l}' | sort -u |
  awk -F'|' -v allowed="$allowed" '
    BEGIN { n = split(allowed, list, "\n"); for (i = 1; i <= n; i++) ok[list[i]] = 1 }
    NF == 2 {
      expression = $2
      sub(/ \(\*\)$/, "", expression)
      gsub(/\//, " OR ", expression)
      parts = split(expression, part, / AND /)
      good = parts > 0
      for (i = 1; i <= parts; i++) {
        gsub(/[()]/, "", part[i])
        any = 0
        choices = split(part[i], choice, / OR /)
        for (j = 1; j <= choices; j++) if (choice[j] in ok) any = 1
        good = good && any
      }
      if (!good) print $1 ": " ($2 == "" ? "no licence named" : $2)
    }')
[[ -z $unknown ]] || complain "licences that deny.toml does not allow:"$'\n'"$unknown"

# Whoever has cargo-deny gets its advisories as well.
if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources || wrong=1; fi

((wrong == 0)) || exit 1
echo 'deps: no tokio in the wire layer, no librdkafka, no OpenSSL, no C without features, known licences only'
