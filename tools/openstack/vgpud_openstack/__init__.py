# SPDX-License-Identifier: MIT
"""The OpenStack agent of vgpud (docs/fleet.md): keeps the GPUs' resource providers, answers vgpud which GPU is booked, and audits.

Modules call only those that come after them: command, audit, bookings, providers, tree, amounts, cloud, host, api."""
