/* SPDX-License-Identifier: MIT */
/* "vm set": a value stays where the user wrote it in the claim, in the claim's units. */
#include <stdlib.h>
#include <string.h>

#include "claim.h"
#include "edit.h"
#include "suite.h"

#define CLAIM(sched)                                                                               \
	"<vgpu xmlns='" CLAIM_URI "' version='1'><vf name='a'><sched>" sched "</sched></vf></"     \
	"vgpu>"

/* Returns the value that TEXT claims for NAME; "": none. */
static const char *value_in(const char *text, const char *name)
{
	static struct claim claim;
	uint32_t i;

	if (claim_parse(&claim, text, strlen(text), NULL) < 0)
		return "unreadable";
	for (i = 0; i < claim.vfs[0].n_params; i++)
		if (strcmp(claim.vfs[0].params[i].name, name) == 0)
			return claim.vfs[0].params[i].value;
	return "";
}

TEST(in_place, "a changed value stays where the user wrote it")
{
	static const struct {
		const char *before, *change, *has, *param, *value;
	} cases[] = {
		{"<weight>200</weight>", "weight=400", "<weight>400</weight>", "weight", "400"},
		{"", "weight=400", "<weight>400</weight>", "weight", "400"},
		{"<param name='weight' value='2'/>", "weight=4",
		 "<param name=\"weight\" value=\"4\"/>", "weight", "4"},
		{"<share min='20' max='50'/>", "min=25", "<share min=\"25\" max=\"50\"/>",
		 "min_ppm", "250000"},
		{"<share min='20' max='50'/>", "max=62.5%", "<share min=\"20\" max=\"62.5\"/>",
		 "max_ppm", "625000"},
		{"<share min='20'/>", "min_ppm=250000", "<share min=\"25\"/>", "min_ppm", "250000"},
		{"<share min='20'/>", "min_ppm=123400", "<share min=\"12.34\"/>", "min_ppm",
		 "123400"},
		{"<share min='20'/>", "min_ppm=101000", "<share min=\"10.1\"/>", "min_ppm",
		 "101000"},
		{"<share min='20'/>", "min_ppm=100100", "<share min=\"10.01\"/>", "min_ppm",
		 "100100"},
		{"<share min='20'/>", "min_ppm=123456",
		 "<param name=\"min_ppm\" value=\"123456\"/>", "min_ppm", "123456"},
		{"<param name='min_ppm' value='5'/>", "min=30", "<share min=\"30\"/>", "min_ppm",
		 "300000"},
		{"<latency-slice unit='ms'>2</latency-slice>", "latency_slice_us=3000",
		 "<latency-slice>3000</latency-slice>", "latency_slice_us", "3000"},
		{"<priority>low</priority>", "class=2", "<priority>high</priority>", "class", "2"},
		{"<priority>low</priority>", "class=3", "<param name=\"class\" value=\"3\"/>",
		 "class", "3"},
		{"<deadline budget-us='1000' period-us='9000'/>", "budget_us=2000",
		 "<deadline budget-us=\"2000\" period-us=\"9000\"/>", "budget_us", "2000"},
		{"", "budget_us=2000", "<param name=\"budget_us\" value=\"2000\"/>", "budget_us",
		 "2000"},
		{"", "slots=2", "<param name=\"slots\" value=\"2\"/>", "slots", "2"},
		/* Refused by the policy, not by the XML. */
		{"<weight>200</weight>", "weight=0", "<param name=\"weight\" value=\"0\"/>",
		 "weight", "0"},
	};
	char before[400], change[40], *changes[] = {change}, *after;
	unsigned i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(before, sizeof(before), CLAIM("%s"), cases[i].before);
		snprintf(change, sizeof(change), "%s", cases[i].change);
		after = edit_claim(before, 1, changes);
		CU_ASSERT_PTR_NOT_NULL_FATAL(after);
		if (!strstr(after, cases[i].has) ||
		    strcmp(value_in(after, cases[i].param), cases[i].value) != 0) {
			printf("%s: %s\n", change, after);
			CU_FAIL("a value is not where the user wrote it");
		}
		free(after);
	}
}

int main(int argc, char **argv)
{

	return suite_main("edit", NULL, argc, argv);
}
