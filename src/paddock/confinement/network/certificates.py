"""A certificate authority for one program: it signs certificates of the hosts whose TLS the proxy opens.

Its key stays in the memory of Paddock. The certificate names the hosts of the rules as the only ones that it may sign
for (name constraints, RFC 5280, 4.2.1.10), so that a program that trusts it trusts it with nothing else.
"""

import datetime as dt
import ssl
import tempfile
from collections.abc import Iterable
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from paddock.model.host_names import read_address

_DAYS = 2
"""Validity of certificates, in days; a session lasts at most 8 hours by default."""
_NAME = "Paddock, for one program"
_PEM = serialization.Encoding.PEM


class CertificateAuthority:
    """Makes certificates for the hosts of `patterns`, and for no other."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = sorted(set(patterns))
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._contexts: dict[str, ssl.SSLContext] = {}

    @cached_property
    def _certificate(self) -> x509.Certificate:
        permitted: list[x509.GeneralName] = []
        for pattern in self._patterns:
            address = read_address(pattern)
            if address is None:
                permitted.append(x509.DNSName(pattern.removeprefix("*.")))
            else:
                permitted.append(x509.IPAddress(ip_network(str(address))))
        builder = _build(_NAME, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs=True), critical=True)
        builder = builder.add_extension(x509.NameConstraints(permitted, None), critical=True)
        return builder.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """The certificate that programs must trust, as PEM."""
        return self._certificate.public_bytes(_PEM).decode("ascii")

    def make_context(self, host: str) -> ssl.SSLContext:
        """Return the TLS of a server for a canonical host; it speaks HTTP/1.1 alone."""
        if host not in self._contexts:
            self._contexts[host] = self._make_context(host)
        return self._contexts[host]

    def _make_context(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        address = read_address(host)
        named = x509.DNSName(host) if address is None else x509.IPAddress(address)
        builder = _build("a host of the rules", key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([named]), critical=True)
        builder = builder.add_extension(_usage(signs=False), critical=True)
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        chain = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        # The library reads keys from files alone. This one is in a directory of Paddock's user, and is removed at once.
        with tempfile.NamedTemporaryFile() as file:
            file.write(chain + private)
            file.flush()
            context.load_cert_chain(file.name)
        return context


def _build(subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)]),
        subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - dt.timedelta(hours=1),
        not_valid_after=now + dt.timedelta(days=_DAYS),
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def read_system_certificates() -> str:
    """Return the certificates that this machine trusts, as PEM."""
    paths = ssl.get_default_verify_paths()
    for path in (paths.cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"):
        if path and Path(path).is_file():
            return Path(path).read_text()
    return ""
