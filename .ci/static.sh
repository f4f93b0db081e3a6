#!/usr/bin/env bash
# static.sh ARG…: builds `ottla` for x86_64-unknown-linux-musl, checks that the file needs no loader and no library, and
# runs `ottla ARG…` in an empty chroot.
#
# Needs only Debian's packages, as root: no std for musl from elsewhere. Std is built once from Debian's source of it with
# Debian's own rustc (the two must be of one version: another rustc refuses the rlibs), and laid out as a sysroot with
# musl's start files, its libc.a and an unwinder. That takes about 4 CPU minutes and is kept in ~/.cache/ottla/musl
# (OTTLA_CACHE); after it an ordinary `cargo build --target` works.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() { printf 'static: %s\n' "$*" >&2; exit 1; }
say() { printf 'static: %s\n' "$*"; }

profile=dist
target=x86_64-unknown-linux-musl
multiarch=x86_64-linux-musl        # Debian's name of the folder with musl's own files
llvm=14                            # whose libunwind.a serves as the unwinder
cache=${OTTLA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ottla}/musl
# Debian's, never rustup's.
cargo=/usr/bin/cargo
export RUSTC=/usr/bin/rustc
unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER RUSTUP_TOOLCHAIN

# --- packages -------------------------------------------------------------------
missing=()
for package in gcc libc6-dev binutils musl-tools rustc-web cargo-web rust-web-src; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == 'install ok installed' ]] || missing+=("$package")
done
if ((${#missing[@]})); then
  ((EUID == 0)) || die "missing: ${missing[*]} (Debian's packages; as root they are installed from here)"
  say "installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# --- sysroot, once for each rustc ------------------------------------------------
version=$("$RUSTC" -V | cut -d' ' -f2)
[[ -f $("$RUSTC" --print sysroot)/lib/rustlib/src/rust/library/std/Cargo.toml ]] || die "no source of std $version"
sysroot=$cache/$version
mkdir -p "$cache"

build_sysroot() {
  local work out own
  work=$(mktemp -d)
  say "building std $version for $target (minutes, once)"
  mkdir -p "$work/std/src"
  echo '#![no_std]' >"$work/std/src/lib.rs"
  cat >"$work/std/Cargo.toml" <<'TOML'
[package]
name = "stdseed"
version = "0.0.0"
edition = "2021"
[workspace]
# One object file for each intrinsic, so that none clashes with libgcc's.
[profile.release.package.compiler_builtins]
codegen-units = 10000
TOML
  # With bitcode the rlibs serve builds with and without LTO.
  (cd "$work/std" &&
    RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$work/target" \
      CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS='-Cembed-bitcode=yes -Cforce-unwind-tables=yes' \
      "$cargo" build -q --release --target "$target" -Z build-std=std,panic_abort,proc_macro,test)

  out=$work/out own=$work/out/self-contained
  mkdir -p "$own"
  find "$work/target/$target/release/deps" -name '*.rlib' ! -name 'libstdseed-*' -exec cp -t "$out" {} +
  cp "/usr/lib/$multiarch"/{crt1,rcrt1,Scrt1,crti,crtn}.o "/usr/lib/$multiarch/libc.a" "$own/"
  cp "$(dirname "$(gcc -print-libgcc-file-name)")"/crt{begin,beginS,end,endS}.o "$own/"

  # The unwinder: gcc's libgcc_eh.a calls glibc's _dl_find_object; LLVM's needs only __fprintf_chk besides musl.
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "libunwind-$llvm-dev" && dpkg-deb -x libunwind-*.deb deb)
  cp "$work/deb/usr/lib/llvm-$llvm/lib/libunwind.a" "$own/"
  cat >"$work/check.c" <<'C'
#include <stdarg.h>
#include <stdio.h>
int __fprintf_chk(FILE *f, int flag, const char *format, ...)
{
	va_list arguments;
	int n;
	(void)flag;
	va_start(arguments, format);
	n = vfprintf(f, format, arguments);
	va_end(arguments);
	return n;
}
C
  musl-gcc -O2 -fPIC -c "$work/check.c" -o "$work/check.o"
  ar r "$own/libunwind.a" "$work/check.o" 2>/dev/null

  mkdir -p "$sysroot/lib/rustlib/$target"
  rm -rf "$sysroot/lib/rustlib/$target/lib"
  mv "$out" "$sysroot/lib/rustlib/$target/lib"
  touch "$sysroot/.complete"
  rm -rf "$work"
}
# One build of it at a time.
exec 9>"$cache/lock"
flock 9
[[ -f $sysroot/.complete ]] || build_sysroot
flock -u 9

# --- build ----------------------------------------------------------------------
# -lgcc last: C code may call helpers that compiler_builtins lacks. The linker is gcc: musl-gcc's file would be dynamic.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="--sysroot $sysroot -Clink-arg=-lgcc"
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=gcc
export CC_x86_64_unknown_linux_musl=musl-gcc AR_x86_64_unknown_linux_musl=ar
folder=${CARGO_TARGET_DIR:-target}
say "building ottla with rustc $version"
"$cargo" build -q -p ottla --profile "$profile" --target "$target" --target-dir "$folder"

# --- check and run ----------------------------------------------------------------
binary=$folder/$target/$profile/ottla
[[ -x $binary ]] || die "no executable at $binary"
if readelf -lW "$binary" | grep -q INTERP; then die "$binary asks for a loader"; fi
if readelf -dW "$binary" 2>/dev/null | grep -q NEEDED; then die "$binary needs shared libraries"; fi
say "no loader, no shared library, $(stat -c %s "$binary") bytes"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cp "$binary" "$root/ottla"
say "in an empty chroot: ottla $*"
env -i "$(command -v chroot)" "$root" /ottla "$@"
