# SPDX-License-Identifier: MIT
"""A cloud, with the credentials of clouds.yaml or of OS_... variables, as every client of OpenStack's finds them.

openstacksdk finds cloud and endpoint; keystoneauth gets tokens, renews them, and repeats requests that did not arrive or got 503."""
from typing import Any, Optional

import keystoneauth1.adapter
import keystoneauth1.exceptions
import openstack.config
import requests

from .api import LONGEST, Answer, CloudError, Placement, parse

SERVICE = "placement"
# The newest of what is used: the provider in the answer to its creation (1.20), codes of errors (1.23), and generations of consumers
# in allocations (1.28). Nova has wanted more since 2019.
MICROVERSION = "1.28"


class Cloud(Placement):
    """CLOUD of clouds.yaml (None: $OS_CLOUD, the OS_... variables, or the only cloud). URL: placement's, in place of the catalog's.
    TIMEOUT: seconds for each request. RETRIES: of a request that did not arrive, or got 503."""

    def __init__(self, cloud: Optional[str], url: Optional[str], timeout: int = 30, retries: int = 3):
        override = {"placement_endpoint_override": url.rstrip("/")} if url else {}
        try:
            region = openstack.config.OpenStackConfig(app_name="vgpud-openstack").get_one(cloud=cloud, api_timeout=timeout, **override)
            self._session = region.get_session()
        except Exception as e:  # those of YAML, of openstacksdk, and of whatever plug-in of Keystone's
            raise CloudError(f"no credentials for OpenStack, in clouds.yaml or OS_... variables: {one_line(e)}") from None
        connect, status = region.get_connect_retries(SERVICE), region.get_status_code_retries(SERVICE)
        self._client = keystoneauth1.adapter.Adapter(
            self._session, service_type=SERVICE, interface=region.get_interface(SERVICE), region_name=region.get_region_name(SERVICE),
            endpoint_override=region.get_endpoint(SERVICE), default_microversion=MICROVERSION,
            connect_retries=retries if connect is None else connect, status_code_retries=retries if status is None else status)

    def renew(self) -> None:
        """Gets a token if there is none, or if it ends within two minutes. Keeps no connection open."""
        try:
            self._session.get_token()
        except (keystoneauth1.exceptions.ClientException, requests.RequestException) as e:
            raise CloudError(one_line(e)) from None
        finally:
            self._session.session.close()

    def request(self, method: str, path: str, body: Any = None, **query: str) -> Answer:
        try:
            response = self._client.request("/" + path, method, json=body, params=query, raise_exc=False, redirect=False, stream=True)
            text = bytearray()
            with response:
                for piece in response.iter_content(1 << 16):
                    text += piece
                    if len(text) > LONGEST:
                        raise CloudError(f"{path}: longer than {LONGEST} bytes, the most that are read")
        except (keystoneauth1.exceptions.ClientException, requests.RequestException) as e:
            raise CloudError(one_line(e)) from None
        return Answer(response.status_code, parse(bytes(text)))


def one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
