"""Signed notes: a text with Ed25519 signatures, as c2sp.org/signed-note defines them.

    <line>
    ...
    <empty line>
    — <name of the key> <base64 of: 4 bytes of the key's id, 64 bytes of the signature>

The signature covers the text up to and including the newline before the empty line. A public key is written as
`<name>+<id in hex>+<base64 of: 1, 32 bytes of the key>`. Its id is the start of the SHA-256 of its name and key, so
that a key cannot be used under another name.
"""

import base64
import binascii
import errno
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from paddock.foundation.own_files import read_secret
from paddock.model.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ED25519: Final = b"\x01"
"""Type of the signature in public keys."""
MAX_NOTE_CHARS: Final = 8192
_MAX_KEY_BYTES = 16 * 1024
_SEPARATOR = "\n\n"
_SIGNATURE_PATTERN = re.compile(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")


class NoteError(ValueError):
    """A note is malformed, or the key did not sign it; the text says which, worded to follow the note's name."""


class VerificationKey(NamedTuple):
    """A public key and its name."""

    name: str
    key: bytes
    """32 bytes."""

    @property
    def id(self) -> bytes:
        """The 4 bytes that name the key in a signature."""
        return hashlib.sha256(self.name.encode() + b"\n" + ED25519 + self.key).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(ED25519 + self.key).decode()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key that a text encodes. Raises ValueError."""
        wrong = f"{text[:100]!r} is not a verification key: NAME+ID+KEY, as `paddock cluster key` prints it"
        name, _, rest = text.strip().partition("+")
        id_, _, encoded = rest.partition("+")
        try:
            data = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError(wrong) from None
        made = cls(name, data[1:])
        if not name or len(data) != 33 or data[:1] != ED25519 or made.id.hex() != id_:
            raise ValueError(wrong)
        return made


class SigningKey:
    """A private key and its name."""

    def __init__(self, name: str, key: "Ed25519PrivateKey") -> None:
        self._key = key
        self.public = VerificationKey(name, key.public_key().public_bytes_raw())

    @classmethod
    def read(cls, path: Path, name: str) -> Self:
        """Read a private key in PEM (PKCS #8) from a file that other users cannot read. Raises ConfigurationError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(read_secret(path, _MAX_KEY_BYTES), password=None)
        except OSError as error:
            raise ConfigurationError(
                f"the checkpoint key {path} cannot be read: {error.strerror}; make one: paddock cluster key {path}"
            ) from None
        except (ValueError, TypeError):  # the text of the error may have a part of the file
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(
                f"{path} has no Ed25519 key in PEM (PKCS #8); make one: paddock cluster key FILE"
            )
        return cls(name, key)

    @classmethod
    def make(cls, path: Path, name: str) -> Self:
        """Make a new key in a new file with mode 0600. Raises ConfigurationError, also if the file exists."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        made = Ed25519PrivateKey.generate()
        data = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "wb") as stream:
                os.fchmod(file, 0o600)
                stream.write(data)
                stream.flush()
                os.fsync(file)
        except OSError as error:
            remedy = "; a key is never replaced" if error.errno == errno.EEXIST else ""
            raise ConfigurationError(f"{path} cannot be made: {error.strerror}{remedy}") from None
        return cls(name, made)

    def sign(self, text: str) -> str:
        """Return the note of a text, which ends in a newline and has no empty line."""
        signature = base64.b64encode(self.public.id + self._key.sign(text.encode())).decode()
        return f"{text}\n\u2014 {self.public.name} {signature}\n"


def open_note(note: str, keys: tuple[VerificationKey, ...]) -> str:
    """Return the text of a note that at least one of the keys has signed. Raises NoteError.

    Signatures of other keys, such as those of witnesses, are ignored. A wrong signature by a known key is an error.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    text, signatures = _split_note(note)
    known = {(key.name, key.id): key for key in keys}
    found = False
    for name, data in signatures:
        if (key := known.get((name, data[:4]))) is None:
            continue
        try:
            Ed25519PublicKey.from_public_bytes(key.key).verify(data[4:], text.encode())
        except InvalidSignature:
            raise NoteError("has a wrong signature") from None
        found = True
    if not found:
        raise NoteError("is not signed by the given key")
    return text


def read_note_text(note: str) -> str:
    """Return the text of a note without a check of its signatures. Raises NoteError."""
    return _split_note(note)[0]


def _split_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the text of a note and its signatures: names and data. Raises NoteError."""
    text, separator, rest = note.rpartition(_SEPARATOR)
    if len(note) > MAX_NOTE_CHARS or not separator or not rest.endswith("\n"):
        raise NoteError("is not a signed note")
    signatures: list[tuple[str, bytes]] = []
    for line in rest[:-1].split("\n"):
        match = _SIGNATURE_PATTERN.fullmatch(line)
        try:
            data = base64.b64decode(match[2], validate=True) if match else b""
        except binascii.Error:
            data = b""
        # Its spare bits must be zero: a signature has one spelling.
        if match is None or len(data) < 5 or base64.b64encode(data).decode() != match[2]:
            raise NoteError("is not a signed note")
        signatures.append((match[1], data))
    return f"{text}\n", signatures
