#!/bin/sh
# SPDX-License-Identifier: MIT
# needs.sh LIBRARY...: the libraries that guests load need libc's own libraries and no other, and no symbol of a glibc newer than
# docs/cuda.md says: they are loaded into file systems that others have made.
oldest=2.28
grep -q "glibc $oldest or later" "$(dirname "$0")/../../../docs/cuda.md" || { echo "FAILED: docs/cuda.md does not say glibc $oldest"; exit 1; }
for library; do
	[ -e "$library" ] || { echo "FAILED: there is no $library"; exit 1; }
	# Sanitizers, which only builds for tests have, bring libraries and symbols of their own.
	readelf -Wd "$library" | grep -q 'NEEDED.*lib[at]san' && { echo "$library has a sanitizer: not looked at"; continue; }
	extra=$(readelf -Wd "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|librt)\.so\.[0-9]+$|^ld-linux')
	[ -z "$extra" ] || { echo "FAILED: $library needs $extra"; exit 1; }
	newest=$(readelf -W --version-info "$library" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -1)
	[ "$(printf '%s\n' "$newest" $oldest | sort -V | tail -1)" = $oldest ] ||
		{ echo "FAILED: $library needs glibc $newest"; exit 1; }
	echo "$library: libc alone, glibc $newest"
done
