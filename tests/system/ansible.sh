#!/bin/bash
# SPDX-License-Identifier: MIT
# The Ansible role: ansible-lint finds nothing, ansible-playbook reads it, vgpud takes the example's configuration, and the
# role's provider tasks do what they say on this machine: written once, then left alone, and nova-compute is told only then.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/placement.sh"
here=$(cd "$(dirname "$0")" && pwd)
ansible=$(cd "$here/../../tools/packaging/ansible" && pwd)
for tool in ansible-lint ansible-playbook; do
	command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: needs root, who owns what the role writes"; exit 77; }
export HOME=$run ANSIBLE_LOCAL_TEMP=$run/tmp ANSIBLE_REMOTE_TEMP=$run/tmp ANSIBLE_ROLES_PATH=$ansible/roles ANSIBLE_NOCOLOR=1
cp -r "$ansible" "$run/ansible"
cd "$run/ansible" || exit 1
ansible-lint --offline --nocolor --profile production site.yml roles >"$run/lint.log" 2>&1 || fail "ansible-lint finds faults"
ansible-playbook -i localhost, --syntax-check site.yml >"$run/syntax.log" 2>&1 || fail "ansible-playbook does not read the example"
# The provider tasks, with a vgpud that runs here. The handler leaves a mark instead of restarting a service.
start_softgpu --vfs 8
/usr/bin/python3 -c 'import yaml; print(yaml.safe_load(open("site.yml"))[0]["roles"][0]["vars"]["vgpud_config"])' | sed "s|sysfs:.*|vfio-user:$run/gpu/pf.sock|" >"$run/example.conf"
grep -q vfio-user "$run/example.conf" || fail "the example has no device"
"$vgpud" --check-config --config "$run/example.conf" 2>"$run/config.log" || fail "vgpud refuses the example's configuration"
printf '[daemon]\nsocket = %s\n[gpu gpu0]\ndevice = vfio-user:%s\nvfs = 2\npolicy = qos\n' "$run/control.sock" "$run/gpu/pf.sock" >"$run/vgpud.conf"
start_vgpud
cat >play.yml <<PLAY
- hosts: localhost
  connection: local
  gather_facts: false
  environment: {VGPUD_SOCKET: "$run/control.sock", PATH: "${vgpuctl%/*}:/usr/bin:/bin"}
  vars: {vgpud_nova: true, vgpud_nova_provider_dir: "$run/provider", vgpud_nova_format: nova}
  tasks:
    - ansible.builtin.include_tasks: roles/vgpud/tasks/nova.yml
  handlers:
    - name: Restart nova-compute
      ansible.builtin.copy: {content: "restarted", dest: "$run/restarted", mode: "0644"}
PLAY
play() { rm -f "$run/restarted"; ansible-playbook -i localhost, play.yml >"$run/play.log" 2>&1; }
play || fail "the tasks fail"
[ -e "$run/restarted" ] || fail "nova-compute was not told of its new provider file"
grep -q "CUSTOM_VGPUD_VF: {total: 2" "$run/provider/vgpud.yaml" || fail "$(cat "$run/provider/vgpud.yaml")"
play || fail "the tasks fail when nothing has changed"
[ ! -e "$run/restarted" ] || fail "nova-compute was restarted, though nothing has changed"
sed -i 's/total: 2/total: 3/' "$run/provider/vgpud.yaml"
play || fail "the tasks fail"
[ -e "$run/restarted" ] && grep -q "CUSTOM_VGPUD_VF: {total: 2" "$run/provider/vgpud.yaml" || fail "a changed file was not put right"
# With --format nova-pci, vgpuctl is told Nova's name of the host.
mkdir "$run/bin"
printf '#!/bin/sh\necho "$*" >>"%s"\nexec "%s" "$@"\n' "$run/asked" "$vgpuctl" >"$run/bin/vgpuctl"
chmod +x "$run/bin/vgpuctl"
sed "s|PATH: \"|PATH: \"$run/bin:|; s/vgpud_nova_format: nova/vgpud_nova_format: nova-pci, vgpud_provider: gpu7.example/" play.yml >pci.yml
ansible-playbook -i localhost, pci.yml >"$run/pci.txt" 2>&1 && fail "PCI devices of a GPU that is none"
[ "$(sort -u "$run/asked" | sed 's/ --check$//' | uniq)" = "inventory --format nova-pci --output $run/provider/vgpud.yaml --provider gpu7.example" ] || fail "$(cat "$run/asked")"
# A new link of the hook has the libvirt that runs reloaded, and no other. No libvirt of systemd's runs in this test, so the list
# of services has one in its place.
cat >hook.yml <<PLAY
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.command: {cmd: "true"}
      notify: Reload libvirt
  handlers:
    - ansible.builtin.import_tasks: roles/vgpud/handlers/main.yml
PLAY
sed -i "s/ansible.builtin.service_facts:/ansible.builtin.set_fact: {ansible_facts: {services: {libvirtd.service: {state: stopped}, virtqemud.service: {state: running}}}}/; \
	s/ansible.builtin.systemd:/ansible.builtin.debug:/; s/name: \"{{ item }}\"/msg: \"reloads {{ item }}\"/; /state: reloaded/d" roles/vgpud/handlers/main.yml
ansible-playbook -i localhost, hook.yml >"$run/hook.txt" 2>&1 || fail "the handlers fail: $(cat "$run/hook.txt")"
[ "$(grep -o '"msg": "reloads .*"' "$run/hook.txt")" = '"msg": "reloads virtqemud.service"' ] || fail "not the libvirt that runs is reloaded: $(cat "$run/hook.txt")"
# The bookings' files have what the variables say, and only a change of them restarts the agent. The units and
# packages of systemd's and apt's own are not for a test to change.
sed -i "s|/etc/vgpud/|$run/etc/|; s/ansible.builtin.\(systemd\|apt\):/ansible.builtin.debug:/; s/^    name: \"{{ item }}\"/    msg: \"starts {{ item }}\"/; \
	s/^    name: vgpud.*/    msg: \"installs it\"/; /^    enabled: /d; /^    state: /d" roles/vgpud/tasks/bookings.yml
mkdir "$run/etc"
bookings() { # VARIABLES
	cat >bookings.yml <<-PLAY
		- hosts: localhost
		  connection: local
		  gather_facts: false
		  vars: {vgpud_packages_from_files: [], vgpud_placement_url: "http://c:8778", vgpud_placement_ca: "${ca:-}", vgpud_provider: "gpu7.example", $1}
		  tasks:
		    - ansible.builtin.include_tasks: roles/vgpud/tasks/bookings.yml
		  handlers:
		    - name: Restart the agent for OpenStack
		      ansible.builtin.copy: {content: "new", dest: "$run/restarts", mode: "0644"}
	PLAY
	rm -f "$run/restarts"
	ansible-playbook --diff -i localhost, bookings.yml >"$run/bookings.txt" 2>&1
}
# shellcheck disable=SC2016
secret="'s3cr\\et"'"$x`y #z'
keystone="vgpud_keystone: {OS_AUTH_URL: \"http://c:5000/v3\", OS_APPLICATION_CREDENTIAL_SECRET: $(jq -n --arg s "$secret" '$s')}"
bookings "$keystone" || fail "the tasks of bookings fail: $(cat "$run/bookings.txt")"
[ "$(cat "$run/etc/booking.env")" = $'PLACEMENT=http://c:8778\nPROVIDER=gpu7.example' ] || fail "$(cat "$run/etc/booking.env")"
[ "$(env -i sh -c '. "$1"; printf "%s\n" "$OS_APPLICATION_CREDENTIAL_SECRET" "$OS_AUTH_URL"' sh "$run/etc/keystone.env")" = "$secret"$'\nhttp://c:5000/v3' ] ||
	fail "$(cat "$run/etc/keystone.env")"
[ "$(stat -c '%a %u' "$run/etc/keystone.env")" = "600 0" ] || fail "who may read the credentials: $(stat -c '%a %u' "$run/etc/keystone.env")"
grep -q s3cr "$run/bookings.txt" && fail "Ansible prints the credentials"
for unit in vgpud-booking.service vgpud-booking.socket; do grep -q "starts $unit" "$run/bookings.txt" || fail "$unit is not started"; done
[ -e "$run/restarts" ] || fail "the agent does not learn of the new credentials"
bookings "$keystone" || fail "the tasks of bookings fail"
[ ! -e "$run/restarts" ] || fail "the agent is restarted, though nothing has changed"
bookings 'vgpud_keystone: {}' && fail "the tasks of bookings succeed without credentials"
ca=/etc/ssl/cloud.pem bookings "$keystone" || fail "the tasks of bookings fail"
[ "$(tail -1 "$run/etc/booking.env")" = OS_CACERT=/etc/ssl/cloud.pem ] || fail "$(cat "$run/etc/booking.env")"
# A provider for each GPU, with a token that does not stay.
start_placement
unset OS_AUTH_TYPE OS_TOKEN OS_ENDPOINT
made node1 >/dev/null
sed -i "s|/run/vgpud-clouds.yaml|$run/token.yaml|; s/ansible.builtin.apt:/ansible.builtin.debug:/; s/^    name: vgpud-openstack/    msg: it/; s/^    state: present//" \
	roles/vgpud/tasks/providers.yml
cat >providers.yml <<PLAY
- hosts: localhost
  connection: local
  gather_facts: false
  environment: {VGPUD_SOCKET: "$run/control.sock", PATH: "${agent%/*}:${vgpuctl%/*}:/usr/bin:/bin", PYTHONDONTWRITEBYTECODE: "1"}
  vars: {vgpud_nova: false, vgpud_packages_from_files: [], vgpud_placement_url: "$url", vgpud_placement_ca: "", vgpud_placement_token: admin, vgpud_provider: node1}
  tasks:
    - ansible.builtin.include_tasks: roles/vgpud/tasks/providers.yml
PLAY
providers() { # CHANGED
	ansible-playbook -i localhost, providers.yml >"$run/providers.txt" 2>&1 && grep -q "changed=$1 " "$run/providers.txt" || fail "$(cat "$run/providers.txt" "$run/placement.log")"
	[ ! -e "$run/token.yaml" ] || fail "the token stays on the host"
}
providers 1
providers 0
# vgpud is down: the play fails, and the file stays.
kill $vgpud_pid; wait $vgpud_pid
play && fail "the tasks succeed without vgpud"
grep -q "CUSTOM_VGPUD_VF: {total: 2" "$run/provider/vgpud.yaml" || fail "the provider file is gone"
