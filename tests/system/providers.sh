#!/bin/bash
# SPDX-License-Identifier: MIT
# vgpud-openstack providers: a resource provider for each GPU, whatever others do to placement meanwhile, and nothing else touched
# (docs/fleet.md). With Debian's python3-placement the real service answers, else a strict stand-in (placement-server.py).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/placement.sh"
start_softgpu --vfs 4
conf() { # further GPUs
	config <<-CONF
		pool = $1
		policy = qos
		vfs = 4
		partition = demand
		placement = profile
		${2:-}
	CONF
}
second="[gpu gpu1]
device = null:
policy = qos
vfs = 2"
conf render "$second"
start_vgpud
start_placement
inventories() { api GET "resource_providers/$(uuid_of "$1")/inventories" | jq -cS .inventories; }
traits() { api GET "resource_providers/$(uuid_of "$1")/traits" | jq -r '.traits - ["HW_CPU_X86_VMX"] | sort | join(" ")'; }
generation() { api GET "resource_providers/$(uuid_of "$1")/traits" | jq .resource_provider_generation; }
names() { api GET resource_providers | jq -r '[.resource_providers[].name] | sort | join(" ")'; }
# All that placement knows, without what is vgpud's of node1.
others() {
	for u in $(api GET resource_providers | jq -r '.resource_providers[] | select(.name | startswith("node1_vgpud_gpu") | not) | .uuid'); do
		for what in "" /inventories /traits; do
			api GET resource_providers/$u$what | jq -cS .
		done
	done
}
keep() { "$agent" providers --provider node1 "$@" >"$run/kept" 2>"$run/said"; }
keeps() { keep "$@" || fail "$(cat "$run/kept" "$run/said")"; }
refuses() { # WORDS [OPTIONS...]: fails with one line that contains WORDS
	local words=$1 r=0
	shift
	keep "$@" || r=$?
	[ $r = 1 ] && [ "$(wc -l <"$run/said")" = 1 ] && grep -q "$words" "$run/said" || fail "want exit 1 and '$words', got $r: $(cat "$run/said")"
}

refuses "placement has no provider node1: start nova-compute on the host"
node1=$(made node1) node2=$(made node2)
sibling=$(made node1_0000:04:00.0 "$node1")
lookalike=$(made node2_vgpud_gpu0 "$node2")
far=$(made node1_vgpud_far "$sibling") # the name is like ours, and it is not right below our host
cpus='{"VCPU": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0}}'
for u in "$node1" "$sibling" "$lookalike" "$far"; do
	api PUT resource_providers/$u/inventories "{\"inventories\": $cpus, \"resource_provider_generation\": 0}" >/dev/null
	api PUT resource_providers/$u/traits '{"traits": ["HW_CPU_X86_VMX"], "resource_provider_generation": 1}' >/dev/null
done
others >"$run/before"
[ "$(grep -c VCPU "$run/before")" = 4 ] || fail "$(cat "$run/before")"

# --check changes nothing.
keep --check; [ $? = 1 ] && [ "$(grep -c "node1_vgpud_gpu[01]: would be made" "$run/kept")" = 2 ] || fail "$(cat "$run/kept" "$run/said")"
[ "$(uuid_of node1_vgpud_gpu0)" = "" ] || fail "--check has made a provider"
[ "$(names)" = "$(echo node1 node1_0000:04:00.0 node1_vgpud_far node2 node2_vgpud_gpu0)" ] || fail "--check has changed what there is: $(names)"

# One provider for each GPU, in the order of the configuration, with what the GPU offers.
keeps
printf '%s\n' "node1_vgpud_gpu"{0,1}": "{made,"given its inventory","given its traits"} | diff - "$run/kept" || fail "it says something else"
ctl inventory --format json >"$run/inventory.json"
for g in 0 1; do
	jq -cS ".gpus[$g] | {CUSTOM_VGPUD_VF: {total: .vfs, min_unit: 1, max_unit: .vfs, step_size: 1},
		CUSTOM_VGPUD_SHARE: {total: .shares.total, min_unit: .shares.least, max_unit: .shares.most, step_size: 1},
		CUSTOM_VGPUD_MEMORY_MB: (.memory | {total: (.total_bytes / 1048576), min_unit: (.unit_bytes / 1048576), max_unit: (.most_bytes / 1048576), step_size: (.unit_bytes / 1048576)})}
		| with_entries(.value += {reserved: 0, allocation_ratio: 1.0})" "$run/inventory.json" >"$run/wanted"
	[ "$(inventories node1_vgpud_gpu$g | jq -cS 'map_values(map_values(. + 0))')" = "$(jq -cS 'map_values(map_values(. + 0))' "$run/wanted")" ] ||
		fail "gpu$g: $(inventories node1_vgpud_gpu$g), want $(cat "$run/wanted")"
	[ "$(api GET "resource_providers/$(uuid_of node1_vgpud_gpu$g)" | jq -r .parent_provider_uuid)" = "$node1" ] || fail "gpu$g is not below node1"
done
[ "$(traits node1_vgpud_gpu0)" = "CUSTOM_VGPUD CUSTOM_VGPUD_GPU_SOFTGPU CUSTOM_VGPUD_POLICY_QOS CUSTOM_VGPUD_POOL_RENDER" ] || fail "traits: $(traits node1_vgpud_gpu0)"

# What is as it should be is not written.
before=$(generation node1_vgpud_gpu0)
: >"$run/requests"
keeps
[ "$(cat "$run/kept")" = "node1: up to date" ] && [ "$(generation node1_vgpud_gpu0)" = "$before" ] || fail "$(cat "$run/kept")"
grep -E "^(PUT|POST|DELETE)" "$run/requests" && fail "it writes what is up to date"
keeps --check

# Somebody else changes the provider between reading and writing: the change is made again, and both are there.
reserve() { # of gpu0
	api PUT "resource_providers/$(uuid_of node1_vgpud_gpu0)/inventories" "$(api GET "resource_providers/$(uuid_of node1_vgpud_gpu0)/inventories" |
		jq -c "$1 | {inventories, resource_provider_generation}")" >/dev/null
}
reserve '.inventories.CUSTOM_VGPUD_VF |= (.reserved = 3 | .total = 9)'
echo 2 >"$run/race"
keeps
[ "$(cat "$run/race")" = 0 ] && grep -q "gpu0: given its inventory" "$run/kept" || fail "$(cat "$run/race" "$run/kept")"
inventories node1_vgpud_gpu0 | jq -e '.CUSTOM_VGPUD_VF | .total == 4 and .reserved == 3' >/dev/null || fail "$(inventories node1_vgpud_gpu0)"
traits node1_vgpud_gpu0 | grep -q "^CUSTOM_SOMEBODY_ELSES CUSTOM_VGPUD CUSTOM_VGPUD_GPU" || fail "$(traits node1_vgpud_gpu0)"
# Nor does it take away what somebody else lets the provider offer.
api PUT resource_classes/CUSTOM_SOMEBODY_ELSES
reserve '.inventories.CUSTOM_SOMEBODY_ELSES = (.inventories.CUSTOM_VGPUD_VF | .reserved = 0 | .total = 4)'
keeps
inventories node1_vgpud_gpu0 | jq -e '.CUSTOM_VGPUD_VF.total == 4 and .CUSTOM_SOMEBODY_ELSES.total == 4' >/dev/null || fail "$(inventories node1_vgpud_gpu0)"
keeps --check
# It does not try for ever.
reserve '.inventories.CUSTOM_VGPUD_VF.total = 9'
echo 1000 >"$run/race"
refuses "placement refuses the inventories of node1_vgpud_gpu0: HTTP 409: "
rm "$run/race"
keeps

# A pool that changes; a GPU that goes while a server has booked it, and when none has.
api PUT allocations/8a1f0b3c-0000-4000-8000-000000000001 "{\"allocations\": {\"$(uuid_of node1_vgpud_gpu1)\": {\"resources\": {\"CUSTOM_VGPUD_VF\": 1}}},
	\"project_id\": \"p\", \"user_id\": \"u\", \"consumer_generation\": null}"
kill $vgpud_pid; wait $vgpud_pid
conf other
start_vgpud
refuses "placement refuses to delete node1_vgpud_gpu1, whose GPU is gone: HTTP 409: "
[ "$(cat "$run/kept")" = "node1_vgpud_gpu0: given its traits" ] || fail "$(cat "$run/kept")"
[ "$(traits node1_vgpud_gpu0)" = "CUSTOM_SOMEBODY_ELSES CUSTOM_VGPUD CUSTOM_VGPUD_GPU_SOFTGPU CUSTOM_VGPUD_POLICY_QOS CUSTOM_VGPUD_POOL_OTHER" ] ||
	fail "$(traits node1_vgpud_gpu0)"
api PUT allocations/8a1f0b3c-0000-4000-8000-000000000001 '{"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": 1}'
keeps
[ "$(cat "$run/kept")" = "node1_vgpud_gpu1: deleted" ] && [ "$(uuid_of node1_vgpud_gpu1)" = "" ] || fail "$(cat "$run/kept")"

# In all of this, nothing of anybody else's was changed.
others >"$run/after"
diff "$run/before" "$run/after" || fail "what is not vgpud's has changed"

# Nova leaves the traits of a provider configuration that is gone on the host's own provider.
api PUT traits/CUSTOM_VGPUD_POOL_OLD
api PUT resource_providers/$node1/traits "{\"traits\": [\"HW_CPU_X86_VMX\", \"CUSTOM_VGPUD_POOL_OLD\", \"CUSTOM_SOMEBODY_ELSES\"], \"resource_provider_generation\": $(generation node1)}" >/dev/null
keeps
[ "$(cat "$run/kept")" = "node1: rid of old traits of vgpud's" ] && [ "$(traits node1)" = CUSTOM_SOMEBODY_ELSES ] || fail "$(cat "$run/kept") $(traits node1)"
keeps --check

# A host that offers the same itself would offer it twice.
api PUT resource_providers/$node1/inventories "{\"inventories\": $(echo "$cpus" | jq -c '. + {CUSTOM_VGPUD_SHARE: .VCPU}'), \"resource_provider_generation\": $(generation node1)}" >/dev/null
: >"$run/requests"
refuses "the provider node1 has CUSTOM_VGPUD_SHARE itself"
grep -E "^(PUT|POST|DELETE)" "$run/requests" && fail "a refused call has changed something"
# A token that is missing, options that make no sense, and answers that are none of placement's.
OS_TOKEN=wrong refuses "HTTP 401: wrong token"
OS_CLOUD=none refuses "no credentials for OpenStack, .*Cloud none was not found"
# What vgpuctl has written is as good as asking it, for whom root alone may ask. What it has not written is refused.
VGPUD_SOCKET=$run/none.sock keep; [ $? = 3 ] && grep -q "none.sock" "$run/said" || fail "$(cat "$run/said")"
api PUT "resource_providers/$node1/inventories" "{\"inventories\": $cpus, \"resource_provider_generation\": $(generation node1)}" >/dev/null
ctl inventory --format json --output "$run/inventory.json"
VGPUD_SOCKET=$run/none.sock keeps --inventory "$run/inventory.json" --check
for nonsense in "" 7 null "{}" '{"host": "h", "gpus": [{"gpu": "gpu0"}]}' '{"host": "h", "gpus": [null]}' \
	'{"host": "node1", "gpus": [{"gpu": "gpu0", "traits": [], "inventories": {"VCPU": {"total": 9000}}}]}' \
	'{"host": "node1", "gpus": [{"gpu": "gpu0", "traits": ["HW_CPU_X86_VMX"], "inventories": {}}]}'; do
	refuses "not what 'vgpuctl inventory --format json' of this version prints" --inventory <(echo "$nonsense")
done
for options in "--gpu gpu0" "--host=-oProxyCommand=true" "--inventory x --host y" "--placement"; do
	# shellcheck disable=SC2086
	keep $options; [ $? = 2 ] || fail "providers $options: no usage error"
done
for nonsense in "" "[]" "7" "null" "{" '{"resource_providers": 5}' '{"resource_providers": [null]}' '{"resource_providers": [{}]}' \
	'{"resource_providers": [{"uuid": 7, "name": "node1"}]}' '{"resource_providers": [{"uuid": "u", "name": "node1"}], "inventories": [null]}' \
	'{"resource_providers": [{"uuid": "u", "name": "node1"}], "inventories": {"A": 5}, "traits": {}}' \
	'{"resource_providers": [{"uuid": "u", "name": "node1"}, {"uuid": "v", "name": "node1_vgpud_gpu0", "parent_provider_uuid": "u"}], "inventories": {}, "traits": [null, 5]}'; do
	echo "$nonsense" >"$run/instead"
	r=0
	keep || r=$?
	[ $r = 1 ] || [ $r = 0 ] || fail "'$nonsense': $r $(cat "$run/said")"
	grep -q Traceback "$run/said" && fail "'$nonsense': $(cat "$run/said")"
done
echo "[]" >"$run/instead"
refuses "not what placement answers"
rm "$run/instead"

# The scheduler's question: a group of a flavor gets all of one GPU, and a flavor's pool chooses which. Only the real placement
# answers it.
[ "$(cat "$run/which")" = real ] || exit 0
kill $vgpud_pid; wait $vgpud_pid
conf render "$second"
start_vgpud
reserve '.inventories.CUSTOM_VGPUD_VF.reserved = 0'
keeps
unit=$(inventories node1_vgpud_gpu0 | jq .CUSTOM_VGPUD_MEMORY_MB.step_size)
candidates() { # SHARE [MORE]: the providers of the candidates
	version=1.34 api GET "allocation_candidates?resources1=CUSTOM_VGPUD_VF:1,CUSTOM_VGPUD_SHARE:$1,CUSTOM_VGPUD_MEMORY_MB:$unit${2:-}" |
		jq -r '.allocation_requests[].allocations | to_entries[] | select(.value.resources | keys == ["CUSTOM_VGPUD_MEMORY_MB", "CUSTOM_VGPUD_SHARE", "CUSTOM_VGPUD_VF"]) | .key' | sort
}
[ "$(candidates 100)" = "$(printf '%s\n' "$(uuid_of node1_vgpud_gpu0)" "$(uuid_of node1_vgpud_gpu1)" | sort)" ] || fail "$(candidates 100)"
[ "$(candidates 100 "&required1=CUSTOM_VGPUD_POOL_RENDER")" = "$(uuid_of node1_vgpud_gpu0)" ] || fail "$(candidates 100 "&required1=CUSTOM_VGPUD_POOL_RENDER")"
[ "$(candidates 1000)" = "" ] || fail "a share that no GPU has was offered: $(candidates 1000)"
