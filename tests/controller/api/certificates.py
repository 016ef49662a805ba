"""Certificates of an endpoint and its clients."""

import ssl
from pathlib import Path
from typing import Any

from controller.api.endpoint_security import EndpointSecurity
from controller.security.stores import StoreSettings
from controller.security.tls import TlsSettings
from tools.lab.certificates import CertificateAuthority


class Certificates:
    """Of the endpoint, of the client alice, and of a stranger."""

    def __init__(self, folder: Path) -> None:
        self.authority = CertificateAuthority(folder)
        self.server = self.authority.issue("refold")
        self.alice = self.authority.issue("alice")
        self.stranger = CertificateAuthority(folder / "other").issue("alice")

    def security(self, **more: Any) -> EndpointSecurity:
        stores = (
            StoreSettings("ssl.keystore", self.server.pem),
            StoreSettings("ssl.truststore", self.authority.pem),
        )
        client_auth = more.pop("client_auth", "none")
        return EndpointSecurity(tls=TlsSettings("ssl", *stores, client_auth=client_auth), **more)

    def context(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.pem))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
