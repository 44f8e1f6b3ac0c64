# SPDX-License-Identifier: MIT
# Sourced by tests of vgpud-openstack: OpenStack's placement (placement-server.py), and the agent with credentials for it.
placement_server=$(realpath "$(dirname "${BASH_SOURCE[0]}")/placement-server.py")
agent=$VGPU_BUILD/tools/openstack/vgpud-openstack
export PYTHONDONTWRITEBYTECODE=1 PATH="${vgpuctl%/*}:$PATH" OS_AUTH_TYPE=admin_token OS_TOKEN=admin VGPUD_SOCKET=$run/control.sock
start_placement() {
	/usr/bin/python3 "$placement_server" "$run" >"$run/placement.log" 2>&1 &
	placement=$!
	await 60 test -s "$run/port"
	echo "placement: $(cat "$run/which")"
	url=http://127.0.0.1:$(cat "$run/port")
	export OS_ENDPOINT=$url/
}
api() { # METHOD PATH [BODY]
	curl -sS -X "$1" -H "X-Auth-Token: admin" -H "OpenStack-API-Version: placement ${version-1.28}" -H "Content-Type: application/json" ${3:+-d "$3"} "$url/$2"
}
made() { api POST resource_providers "{\"name\": \"$1\"${2:+, \"parent_provider_uuid\": \"$2\"}}" | jq -r .uuid; }
uuid_of() { api GET "resource_providers?name=$1" | jq -r '.resource_providers[0].uuid // empty'; }
