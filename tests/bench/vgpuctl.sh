#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpuctl.sh [RUNS [SECONDS]]: how long "vgpuctl vf list" takes for the 31 VFs of a GPU, and how much CPU "vgpuctl top" needs, as
# JSON. vgpuctl's and vgpud's control thread run with real-time priority for the first, so that it does not contain their wait for
# a CPU; top runs as usual.
. "$(dirname "$0")/../system/lib.sh"
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, for real-time priority"; exit 77; }
config null:command_us=20 <<CONF
vfs = 31
CONF
start_vgpud
chrt -f -p 20 "$vgpud_pid" # its main thread, which is the control thread
chrt -f 20 /usr/bin/python3 "$(dirname "$0")/vgpuctl.py" list "${1:-100}" "$vgpuctl" --socket "$run/control.sock" >"$run/list.json" || fail "vf list"
chrt -o -p 0 "$vgpud_pid"
/usr/bin/python3 "$(dirname "$0")/vgpuctl.py" top "${2:-20}" "$vgpuctl" --socket "$run/control.sock" >"$run/top.json" || fail "top"
jq -s --arg machine "$(this_machine)" --arg date "$(date -u +%F)" 'add + {machine: $machine, date: $date}' "$run/list.json" "$run/top.json"
