"""TLS settings of Kafka as contexts of Python's ssl."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Self

from controller.security.errors import SecurityError
from controller.security.stores import StoreSettings, load_identity, load_trusted

_TLS_1_3_CIPHERS: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)
_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


class TlsSettings(NamedTuple):
    """One side of TLS. `prefix` begins the keys in messages (`ssl`, `zookeeper.ssl`). `protocols`
    and `ciphers` are empty for the defaults; ciphers have their IANA names, as in Java.
    `client_auth`: what a server asks of clients, as ssl.client.auth."""

    prefix: str
    keystore: StoreSettings
    truststore: StoreSettings
    protocols: tuple[str, ...] = ()
    ciphers: tuple[str, ...] = ()
    verifies_host: bool = True
    client_auth: str = "none"

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that a context is made of."""
        places = (self.keystore.location, self.truststore.location)
        return tuple(one for one in places if one is not None)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context to connect with: it verifies the server, and its name unless that is switched off.

    Without a truststore the system's authorities are trusted. Raises SecurityError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host
    _trust(settings, context)
    if settings.keystore.is_set:
        load_identity(settings.keystore, context)
    _restrict(settings, context)
    return context


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context to accept connections with. Raises SecurityError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if not settings.keystore.is_set:
        raise SecurityError(f"{settings.prefix}.keystore.location must be set for a TLS listener")
    load_identity(settings.keystore, context)
    modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    context.verify_mode = modes[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(settings, context)
    _restrict(settings, context)
    return context


class ReloadedContext:
    """A context that is made again when one of its files has changed, for the next connection.

    If the new files cannot be read, the old context stays in use and `on_failure` is called once.
    """

    def __init__(
        self,
        settings: TlsSettings,
        make: Callable[[TlsSettings], ssl.SSLContext],
        on_failure: Callable[[str], None],
    ) -> None:
        """Make the first context. `on_failure` reports why a later one cannot be made. Raises
        SecurityError if the first one cannot."""
        self._settings = settings
        self._make = make
        self._on_failure = on_failure
        self._seen = self._stamps()
        self._context = make(settings)

    def current(self) -> ssl.SSLContext:
        """The context for the next connection."""
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._context = self._make(self._settings)
            except SecurityError as error:
                self._on_failure(f"{error}; connections continue with the earlier certificates")
        return self._context

    def delegate(self) -> ssl.SSLContext:
        """A context for a client that keeps one as long as it runs: each of its connections is
        made with `current`."""
        return _Delegate(self)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(one) for one in self._settings.files]


class _Delegate(ssl.SSLContext):
    """A context that makes each connection with the current one of another. asyncio calls
    `wrap_bio` for each connection."""

    def __new__(cls, _reloaded: ReloadedContext) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, reloaded: ReloadedContext) -> None:
        self._reloaded = reloaded
        self.check_hostname = reloaded.current().check_hostname

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        current = self._reloaded.current()
        return current.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _trust(settings: TlsSettings, context: ssl.SSLContext) -> None:
    # Java trusts each certificate of a truststore, also one that another authority has signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.truststore.is_set:
        load_trusted(settings.truststore, context)
    else:
        context.load_default_certs()


def _restrict(settings: TlsSettings, context: ssl.SSLContext) -> None:
    """Restrict versions and ciphers. Python selects a range of versions."""
    if settings.protocols:
        unknown = [one for one in settings.protocols if one not in _VERSIONS]
        if unknown:
            known = ", ".join(_VERSIONS)
            key = f"{settings.prefix}.enabled.protocols"
            raise SecurityError(f"{key}: {unknown[0]} is not one of {known}")
        chosen = [_VERSIONS[one] for one in settings.protocols]
        context.minimum_version = min(chosen)
        context.maximum_version = max(chosen)
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.ciphers:
        _restrict_ciphers(settings, context)


def _restrict_ciphers(settings: TlsSettings, context: ssl.SSLContext) -> None:
    """Restrict the ciphers of TLS 1.2. Python cannot select those of TLS 1.3, so that any of them
    allows them all, and none of them forbids that version."""
    names = []
    for one in settings.ciphers:
        if one not in _TLS_1_3_CIPHERS:
            names.append(_openssl_name(one))
            _require_cipher(settings, context, one, names[-1])
    if not names:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if len(names) == len(settings.ciphers):
        newest = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.MAXIMUM_SUPPORTED)
        if context.maximum_version in newest:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(":".join(names))


def _require_cipher(
    settings: TlsSettings, context: ssl.SSLContext, name: str, of_openssl: str
) -> None:
    """OpenSSL leaves out names that it does not know, as long as it knows one."""
    try:
        context.set_ciphers(of_openssl)
    except ssl.SSLError:
        text = f"{settings.prefix}.cipher.suites: {name} is unknown, or OpenSSL does not support it"
        raise SecurityError(text) from None


def _openssl_name(iana: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384 for OpenSSL."""
    exchange, _, cipher = iana.removeprefix("TLS_").partition("_WITH_")
    parts = [] if exchange == "RSA" else exchange.split("_")
    joined = (
        cipher.replace("AES_", "AES")
        .replace("_CBC_", "_")
        .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    )
    return "-".join([*parts, *joined.split("_")])
