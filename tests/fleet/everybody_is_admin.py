# SPDX-License-Identifier: MIT
"""In the place of Keystone's middleware, for a cloud that only its own namespaces can reach: every request is an administrator's."""
import webob.dec
from nova import context

ROLES = ["admin", "manager", "member", "reader", "service"]


def factory(_conf, **_local):
    def wrap(app):
        @webob.dec.wsgify
        def admit(request):
            request.environ["nova.context"] = context.RequestContext(
                "admin", "admin", is_admin=True, roles=ROLES, auth_token="admin", service_catalog=[],
                request_id=request.environ.get("openstack.request_id"))
            return app
        return admit
    return wrap
