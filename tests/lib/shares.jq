# Whether VFs had what they are promised between two looks ("vgpuctl -o json vf list"), $a and $b. It is vgpud that is
# judged, not the machine: a machine that stands still ends slices late, and what VFs ran beyond them is in vgpud's
# records, is charged to them, and has to be evened out. So each VF's service, over the whole time, is within the policy's
# own bound (lag_bound_ns, which grows with the worst overrun that it has seen) of its share of all service.
#
# Judged are active VFs that had work all the time: one that sleeps is promised less, and does not get it back. Where some
# slept, the others are compared with each other, each of which may be off by its own bound.
#
# Service is what the policy was charged for, and will be. What it was forgiven is no more than VFs overran.
def service: .charged_ns + .pending_ns;
def share: .share_numerator / .share_denominator;
def active: select(.state == "active");
[$b.vfs[] | active | . as $is | $a.vfs[.vf] as $was
	| select($is.has_work and $was.has_work and $is.wakes == $was.wakes)
	| {is: $is, had: (($is | service) - ($was | service)), forgiven: ($is.forgiven_ns - $was.forgiven_ns),
		overran: ($is.overrun_ns - $was.overrun_ns)}]
| (map(.is | share) | add) as $promises | (map(.had) | add) as $all | (map(.is.lag_bound_ns) | add) as $bounds
| (length == ([$b.vfs[] | active] | length)) as $everybody
| map((.is | share / $promises) as $share
	| {
		vf: .is.vf, had, due: ($share * $all | round), off: (.had - $share * $all | round), forgiven, overran,
		bound: (if .is.lag_bound_ns == null then null
			else 2 * (.is.lag_bound_ns + if $everybody then 0 else $share * $bounds end) | round end),
	}
	| .kept = (.bound != null and (.off | fabs) <= .bound and .forgiven <= .overran))
