# SPDX-License-Identifier: MIT
# Functions on figures.json, which says of each figure: its name and unit; the benchmark that measures it; where in that
# benchmark's JSON its value and the machine's own limit are; by what to multiply the value for the unit (scale); and whether
# more is better (more), or less.

# The number at a path. Of an array of objects, a step {KEY: VALUE...} selects the first that has these.
def at($path): reduce $path[] as $step (.;
	if . == null then null
	elif ($step | type) == "object" then (if type == "array" then map(select(contains($step))) | .[0] else null end)
	else (try .[$step] catch null) end);
def value_of($figure): at($figure.value) | if . then . * ($figure.scale // 1) else . end;
def limit_of($figure): if $figure.limit then at($figure.limit) else null end;
# A number, with as many digits as mean something.
def short: if . == null then "-" elif . == 0 then "0" elif fabs >= 100 then round elif fabs >= 10 then (. * 10 | round / 10)
	elif fabs >= 0.1 then (. * 1000 | round / 1000) else (. * 100000 | round / 100000) end | tostring;
# JSON as text in which whatever fits on a line stands on one: a row of figures, not a line for each number.
def laid_out($indent): tojson as $line | ($indent + "  ") as $deeper |
	if ($indent + $line | length) <= 200 or (type != "array" and type != "object") then $line
	else (if type == "array" then "[]" else "{}" end) as $ends
		| [keys_unsorted[] as $key | {single: (.[$key] | type != "array" and type != "object"),
			text: ((if type == "object" then ($key | tojson) + ": " else "" end) + (.[$key] | laid_out($deeper)))}]
		| reduce .[] as $next ([]; if $next.single and .[-1].single and ($deeper + .[-1].text + $next.text | length) <= 198
			then .[-1].text += ", " + $next.text else . + [$next] end)
		| $ends[:1] + "\n" + (map($deeper + .text) | join(",\n")) + "\n" + $indent + $ends[1:] end;
def laid_out: laid_out("");
