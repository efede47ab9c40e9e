"""Signed notes and checkpoints."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.cluster.checkpoint import EMPTY_ROOT, ChainHead, Checkpoint
from paddock.cluster.signed_note import NoteError, SigningKey, VerificationKey, open_note, read_note_text
from paddock.model.errors import ConfigurationError

# The example of c2sp.org/signed-note.
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = (
    "This is an example message.\n\n"
    "\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)
CHECKPOINT = Checkpoint("paddock", 3, bytes(range(32)), 2, EMPTY_ROOT, "2026-11-28T18:00:00.123Z")


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.make(tmp_path / "key.pem", "paddock")


def test_the_example_of_the_specification_is_understood() -> None:
    public = VerificationKey.parse(KEY)
    assert str(public) == KEY
    assert open_note(NOTE, (public,)) == "This is an example message.\n"


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    made = SigningKey.make(path, "paddock")
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.read(path, "paddock").public == made.public
    assert VerificationKey.parse(str(made.public)) == made.public
    with pytest.raises(ConfigurationError) as again:
        SigningKey.make(path, "paddock")
    assert str(again.value) == f"{path} cannot be made: File exists; a key is never replaced"


def test_a_key_of_openssl_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    path.chmod(0o600)
    key = SigningKey.read(path, "paddock")
    assert open_note(key.sign("a\n"), (key.public,)) == "a\n"


@pytest.mark.parametrize(
    "content", [b"", b"secret", b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"]
)
def test_a_file_without_a_key_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError) as refused:
        SigningKey.read(path, "paddock")
    assert str(refused.value) == (
        f"{path} has no Ed25519 key in PEM (PKCS #8); make one: paddock cluster key FILE"
    )


def test_a_key_may_be_a_link_that_the_group_reads_but_not_every_user(tmp_path: Path) -> None:
    """As in a mounted Secret of Kubernetes."""
    path, link = tmp_path / "content.pem", tmp_path / "key.pem"
    made = SigningKey.make(path, "paddock")
    link.symlink_to(path.name)
    path.chmod(0o440)
    assert SigningKey.read(link, "paddock").public == made.public
    path.chmod(0o444)
    with pytest.raises(ConfigurationError) as refused:
        SigningKey.read(link, "paddock")
    assert str(refused.value) == (
        f"the checkpoint key {link} cannot be read: it can be read by every user; run: chmod 600 {link}; "
        f"make one: paddock cluster key {link}"
    )


def test_a_missing_key_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    with pytest.raises(ConfigurationError) as missing:
        SigningKey.read(path, "paddock")
    assert str(missing.value) == (
        f"the checkpoint key {path} cannot be read: No such file or directory; make one: paddock cluster key {path}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "paddock",
        "paddock+00000000+AQ==",
        KEY.replace("foo", "bar"),
        KEY.replace("530d", "530e"),
        f"+{KEY}",
    ],
)
def test_a_wrong_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a verification key: NAME"):
        VerificationKey.parse(text)


def test_another_key_of_the_same_name_proves_nothing(key: SigningKey, tmp_path: Path) -> None:
    other = SigningKey.make(tmp_path / "other.pem", "paddock")
    note = other.sign(CHECKPOINT.render())
    with pytest.raises(NoteError) as unknown:
        open_note(note, (key.public,))
    assert str(unknown.value) == "is not signed by the given key"
    assert open_note(note, (key.public, other.public)) == CHECKPOINT.render()


def test_signatures_of_witnesses_do_not_matter(key: SigningKey, tmp_path: Path) -> None:
    witness = SigningKey.make(tmp_path / "witness.pem", "witness.example.com")
    note = key.sign(CHECKPOINT.render())
    cosigned = note + witness.sign(CHECKPOINT.render()).rpartition("\n\n")[2]
    assert open_note(cosigned, (key.public,)) == CHECKPOINT.render()
    assert open_note(cosigned, (witness.public,)) == CHECKPOINT.render()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_changed_byte_of_a_note_is_accepted(data: st.DataObject, key: SigningKey) -> None:
    note = key.sign(CHECKPOINT.render())
    at = data.draw(st.integers(0, len(note) - 1))
    character = data.draw(st.characters(codec="utf-8").filter(lambda one: one != note[at]))
    with pytest.raises(NoteError):
        open_note(note[:at] + character + note[at + 1 :], (key.public,))


@pytest.mark.parametrize(
    "note",
    ["", "a", "a\n\n", "a\n\n\u2014 b c", "a\n\n- b AAAAAAAA\n", f"{'a' * 9000}\n\n\u2014 b AAAAAAAA\n"],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(NoteError) as refused:
        read_note_text(note)
    assert str(refused.value) == "is not a signed note"


def test_a_checkpoint_has_the_form_of_tlog_checkpoint() -> None:
    assert CHECKPOINT.render() == (
        "paddock\n"
        "3\n"
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
        "checkpoint 2\n"
        "previous 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
        "time 2026-11-28T18:00:00.123Z\n"
    )
    assert Checkpoint.parse(CHECKPOINT.render()) == CHECKPOINT


@given(st.text(alphabet="a0= \ncheckpoint", max_size=200))
def test_no_other_text_is_a_checkpoint(text: str) -> None:
    with pytest.raises(NoteError):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "members",
    [
        None,
        [],
        ["n", "0" * 16, 1],
        ["n", "0" * 16, 1.0, "0" * 64],
        ["n", "0" * 16, 0, "0" * 64],
        ["n", "0" * 16, 2**63, "0" * 64],
        ["n m", "0" * 16, 1, "0" * 64],
        ["n\n", "0" * 16, 1, "0" * 64],
        ["n", "0" * 15, 1, "0" * 64],
        ["n", "0" * 16, 1, "0" * 63 + "\n"],
    ],
)
def test_what_is_no_head_is_refused(members: object) -> None:
    with pytest.raises(ValueError, match="not a head of a chain"):
        ChainHead.parse(members)


def test_a_head_is_one_line() -> None:
    head = ChainHead.parse(["web-1", "0" * 16, 7, "f" * 64])
    assert head.encode() == b"web-1 0000000000000000 7 " + b"f" * 64 + b"\n"
