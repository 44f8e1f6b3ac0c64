#!/bin/bash
# SPDX-License-Identifier: MIT
# A storm that cannot fail shows nothing: with each of these faults planted, a storm of a few events must fail, and say why.
storm=$(dirname "$0")/storm.sh
out=$(mktemp /tmp/vgpud-test.XXXXXX)
trap 'rm -f "$out"' EXIT
finds() { # FAULT EVENTS SENTENCE
	"$storm" "$2" --plant "$1" >"$out" 2>&1
	case $? in
	77) cat "$out"; exit 77 ;;
	0) echo "FAILED: a storm has not found $1"; exit 1 ;;
	esac
	grep -qE "^FAILED: $3" "$out" || { echo "FAILED: with $1 a storm failed for another reason"; cat "$out"; exit 1; }
	echo "$1: $(grep -m 1 '^FAILED' "$out" | cut -c 1-120)"
}
finds keep-lease 2 "timed out waiting for: leases_are"
finds keep-visitor 2 "timed out waiting for"
finds skip-clear 8 "timed out waiting for"
finds refuse-reset 8 "timed out waiting for|VFs .* were reset"
