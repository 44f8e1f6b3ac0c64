# SPDX-License-Identifier: MIT
# The units that tell vgpud which GPU placement has booked, under a real systemd, on a host with two GPUs. Keystone's client and
# placement are stand-ins that answer what these would; what asks them, its sandbox, its credential and its socket are real.
. /tests/lib.sh
host=10000000-0000-4000-8000-000000000001 second=10000000-0000-4000-8000-000000000002 vm=8a1f0b3c-0000-4000-8000-000000000001
mkdir -p /etc/vgpud /usr/local/bin
cat >/usr/local/bin/openstack <<'END'
#!/bin/sh
[ "$*" = "token issue -f value -c id" ] && [ "$OS_APPLICATION_CREDENTIAL_SECRET" = s3cret ] && od -An -N8 -tx8 /dev/urandom | tr -d ' '
END
cat >/usr/local/bin/placement <<END
#!/bin/bash
# Answers one request, and notes path and token.
read -r method path version
while IFS= read -r line; do
	line=\${line%$'\r'}
	[ -n "\$line" ] || break
	case \${line,,} in x-auth-token:*) token=\${line##* } ;; esac
done
echo "\$path \$token" >>/run/placement.log
case \$path in
/allocations/$vm) body='{"allocations": {"$second": {"resources": {"CUSTOM_VGPUD_VF": 1, "CUSTOM_VGPUD_SHARE": 100, "CUSTOM_VGPUD_MEMORY_MB": 16}}}}' ;;
/resource_providers\?*) body='{"resource_providers": [{"uuid": "$host", "name": "node1", "parent_provider_uuid": null},
	{"uuid": "$second", "name": "node1_vgpud_second", "parent_provider_uuid": "$host"}]}' ;;
*) body='{"allocations": {}}' ;;
esac
printf 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \${#body} "\$body"
END
chmod 755 /usr/local/bin/openstack /usr/local/bin/placement
printf '[Socket]\nListenStream=127.0.0.1:8778\nAccept=yes\n' >/etc/systemd/system/placement.socket
printf '[Service]\nExecStart=/usr/local/bin/placement\nStandardInput=socket\nStandardError=journal\n' >/etc/systemd/system/placement@.service
printf 'PLACEMENT=http://127.0.0.1:8778\nPROVIDER=node1\n' >/etc/vgpud/booking.env
(umask 077 && echo OS_APPLICATION_CREDENTIAL_SECRET=s3cret >/etc/vgpud/keystone.env)
for gpu in first second; do echo 'SOFTGPU_OPTIONS=--vfs 2 --vram 64M' >/etc/vgpud/softgpu-$gpu.conf; done
cat >/etc/vgpud/vgpud.conf <<END
[daemon]
bookings = /run/vgpud-booking.sock
booking_ms = 5000
[gpu first]
device = vfio-user:/run/softgpu/first/pf.sock
vfs = 2
policy = qos
grace_ms = 1000
[gpu second]
device = vfio-user:/run/softgpu/second/pf.sock
vfs = 2
policy = qos
grace_ms = 1000
END
ip link set lo up
systemctl daemon-reload
need "placement and two GPUs start" systemctl start placement.socket vgpud-softgpu@first vgpud-softgpu@second
need "the units of bookings start" systemctl start vgpud-booking-token.timer vgpud-booking.socket
need "vgpud starts" systemctl start vgpud
ready() { [ "$(vgpuctl -o json vf list | jq -s '[.[].vfs[] | select(.state == "available")] | length')" = 4 ]; }
need "four VFs are ready" await 60 ready

# The timer gets a token at once. Only root may read it.
token=/run/vgpud-booking-token/token
need "a token is there" await 60 test -s $token
setpriv --reuid=65534 --regid=65534 --clear-groups cat $token >/dev/null 2>&1
check "nobody else can read it" [ $? = 1 ]
check "the process that gets it has ended well" [ "$(systemctl show -P Result vgpud-booking-token.service)" = success ]

domain() { # N
	echo "<domain type='kvm'><name>vm$1</name><uuid>${vm%?}$1</uuid><metadata><v:vgpu xmlns:v='urn:vgpud:xmlns:domain:1' version='1'><v:vf name='a'/></v:vgpu></metadata></domain>"
}
gpu_of() { vgpuctl -o json vm list | jq -r ".vms[] | select(.domain == \"$1\").gpu"; }
starts() { domain $1 | vgpud-hook vm$1 prepare begin - 2>/run/hook.log; }
check "a VM starts" starts 1
check "it is on the GPU that is booked, the second" [ "$(gpu_of vm1)" = second ]
check "placement was asked with the token, and by nothing else" [ "$(sed 's/.* //' /run/placement.log | sort -u)" = "$(cat $token)" ]
check "vgpud was told once" [ "$(grep -c ^/allocations/ /run/placement.log)" = 1 ]
ended() { [ -z "$(systemctl list-units --no-legend --state=active,failed 'vgpud-booking@*')" ]; }
check "no process of the question is left" await 20 ended
# A VM without a booking gets a GPU that vgpud chooses.
check "another VM starts" starts 2
check "vgpud chose the first GPU for it" [ "$(gpu_of vm2)" = first ]
# With a new token the next question uses that, without a restart of anything.
old=$(cat $token)
check "a new token can be had" systemctl restart vgpud-booking-token.service
check "it is another" [ "$(cat $token)" != "$old" ]
check "a third VM starts" starts 3
check "placement was asked with the new token" [ "$(sed -n 's/.* //; $p' /run/placement.log)" = "$(cat $token)" ]
# Without placement the VM starts all the same.
systemctl stop placement.socket
check "without placement a VM starts" starts 4
check "the journal says what placement said" await 20 sh -c "journalctl -b -u 'vgpud-booking@*' -o cat --no-pager | grep -q 127.0.0.1"
finish
