"""Each file that Paddock keeps, with each hostile thing in its place: refused at once, by path, reason and remedy."""

import gzip
import os
import resource
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.fernet import Fernet

from paddock.engines.javascript.parse_cache import ParseCache
from paddock.engines.programs.cache import Cache
from paddock.engines.sdk.notes import Signals
from paddock.engines.sdk.webhooks import Webhooks
from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.secrets.vault import FileVault
from paddock.engines.servers.catalog.inferred_types import InferredTypes
from paddock.engines.servers.catalog.provisioning.service import load_registry, load_trust
from paddock.engines.servers.config import StdioServer
from paddock.engines.servers.pins import Pins, memory_of
from paddock.engines.servers.result import ToolInfo, ToolResult
from paddock.foundation.own_files import take_repairs
from paddock.gate.schedules.last_runs import LastRuns
from paddock.model.artifact import Handle
from paddock.model.errors import PaddockError
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings, Settings
from paddock.record.ledger.writer import Ledger
from paddock.record.output.artifacts import Artifacts
from paddock.surfaces.http_server.endpoint import read_token

OTHER = 54321
"""A user that nobody is."""
PATIENCE_S = 120
MEMORY = 1024 * 1024 * 1024
HANDLE = Handle(repo="ws", epoch_ms=0, token="0" * 16)
SERVER = StdioServer("git", "git-server")
TOOL = ToolInfo("log", "Show the log.", {"type": "object"}, None, {})


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Have what waits for ever, and what takes memory without end, fail instead."""

    def hangs(*_: object) -> None:
        raise AssertionError("it hangs")

    before = resource.getrlimit(resource.RLIMIT_DATA)
    taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MEMORY, before[1]))
    handler = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_DATA, before)


class Own(NamedTuple):
    """One file of Paddock's own: where it is below a folder, its content, its use, and what its refusal says."""

    place: str
    content: bytes
    use: Callable[[Path], object]
    told: str
    """With `{file}` for the file, and `{why}` for what is wrong with it."""


def artifacts(folder: Path) -> Artifacts:
    return Artifacts(
        ArtifactSettings(directory=folder / "artifacts"),
        Scanner(RedactionSettings()),
        clock=lambda: HANDLE.created,
    )


def webhooks(folder: Path) -> Webhooks:
    return Webhooks(
        folder / "webhooks.json", (), lambda: FileVault(folder), KnownSecrets(), lambda value: value
    )


def logins(folder: Path) -> KeptLogins:
    servers = Settings().servers.model_copy(update={"state": folder})
    return KeptLogins(Settings().model_copy(update={"servers": servers}), folder / ".mcp.json")


def memory(name: str) -> str:
    """Return where something is remembered of the servers of a folder; its name depends on the folder's."""
    return f"MEMORY/{name}"


KEY = Fernet.generate_key()
TOKEN = Fernet(KEY).encrypt(b"{}")
DAY = f"{datetime.now(UTC):%Y-%m-%d}.ndjson"
REFUSED = "{file}: cannot be read: it {why}"
UNWRITTEN = "{file}: cannot be written: it {why}"
VAULT = "the vault cannot be used: {file}: it {why}"
SIGNALS = "the signals cannot be used: {file}: it {why}"
LEDGER = (
    "The audit ledger {folder}/audit cannot be written: {file}: it {short}. Nothing runs without its record. "
    "To go on, {remedy}."
)

OWN = {
    "secrets": Own("vault/secrets.fernet", TOKEN, lambda at: FileVault(at / "vault").get("s", "n"), VAULT),
    "key": Own("vault/key", KEY, lambda at: FileVault(at / "vault").get("s", "n"), VAULT),
    "key, to write": Own("vault/key", KEY, lambda at: FileVault(at / "vault").set("s", "n", "x"), VAULT),
    "vault's lock": Own("vault/lock", b"", lambda at: FileVault(at / "vault").set("s", "n", "x"), VAULT),
    "pins": Own(memory("pins.json"), b"{}", lambda at: Pins(at, at / ".mcp.json").list_changes(), REFUSED),
    "pins' lock": Own(
        memory("pins.lock"),
        b"",
        lambda at: Pins(at, at / ".mcp.json").review_listing(SERVER, [TOOL]),
        UNWRITTEN,
    ),
    "logins": Own(memory("logins.json"), b"{}", lambda at: logins(at).index.look(), REFUSED),
    "webhooks": Own("webhooks.json", b"{}", lambda at: webhooks(at).list_webhooks(), REFUSED),
    "stored output": Own(
        f"artifacts/{HANDLE}/stdout.gz",
        gzip.compress(b"x"),
        lambda at: list(artifacts(at).read_packed(HANDLE, "stdout")),
        "cannot read the artifact: {file}: it {why}",
    ),
    "moment": Own("HASH/often", b"2026-01-01T00:00:00", lambda at: LastRuns(at, at).last("often"), REFUSED),
    "turn": Own("HASH/often.lock", b"", lambda at: LastRuns(at, at).turn("often").__enter__(), UNWRITTEN),
    "signals": Own("signals.db", b"", lambda at: Signals(at / "signals.db").count_signals(), SIGNALS),
    "signals' log": Own(
        "signals.db-wal", b"", lambda at: Signals(at / "signals.db").count_signals(), SIGNALS
    ),
    "ledger's head": Own("audit/head", b"", lambda at: Ledger(at / "audit").close(), LEDGER),
    "ledger's file": Own(f"audit/{DAY}", b"", lambda at: Ledger(at / "audit").close(), LEDGER),
}
"""What Paddock alone writes, and reads back."""

OBEYED = {
    "trust": Own("trusted.json", b'["a"]', lambda at: load_trust(at / "trusted.json"), REFUSED),
    "registry": Own("registry.json", b"{}", lambda at: load_registry(at / "registry.json"), REFUSED),
    "token": Own(
        "token",
        b"0123456789abcdef",
        lambda at: read_token(at / "token"),
        "{file}: cannot read this token file: it {why}",
    ),
}
"""What a person may write, and link."""


def bound(file: Path) -> None:
    """Leave a socket; its name may be longer than one of a socket can be."""
    here = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{file.name}")
    finally:
        os.close(here)


def linked(file: Path) -> None:
    target = file.parent / "elsewhere"
    target.write_bytes(b"{}")
    target.chmod(0o600)
    file.symlink_to(target)


KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo, "is a pipe, not a regular file"),
    "socket": (bound, "is a socket, not a regular file"),
    "directory": (Path.mkdir, "is a directory, not a regular file"),
    "link to a device": (lambda file: file.symlink_to("/dev/zero"), "is a link, not a regular file"),
    "link to a file": (linked, "is a link, not a regular file"),
}
"""How to make each hostile thing, and what is said of it."""


def placed(own: Own, folder: Path) -> Path:
    """Return where a file is, in a directory that is as Paddock makes it."""
    remembered = memory_of(folder, folder / ".mcp.json").name
    runs = LastRuns(folder, folder).directory.name
    file = folder / own.place.replace("MEMORY", remembered).replace("HASH", runs)
    file.parent.mkdir(parents=True, exist_ok=True)
    for above in file.parents:
        if above.is_relative_to(folder):
            above.chmod(0o700)
    return file


def set_up(own: Own, folder: Path) -> Path:
    """Make all that the use of a file needs, and return where the file itself is to be."""
    for name, content in (("vault/key", KEY), ("vault/secrets.fernet", TOKEN)):
        beside = placed(Own(name, b"", lambda _: None, ""), folder)
        beside.write_bytes(content)
        beside.chmod(0o600)
    with sqlite3.connect(folder / "signals.db"):
        (folder / "signals.db").chmod(0o600)
    file = placed(own, folder)
    file.unlink(missing_ok=True)
    take_repairs()
    return file


def refusal(own: Own, folder: Path) -> str:
    with pytest.raises(PaddockError) as caught:
        own.use(folder)
    return str(caught.value)


def expected(own: Own, folder: Path, file: Path, short: str, remedy: str) -> str:
    return own.told.format(file=file, folder=folder, why=f"{short}; {remedy}", short=short, remedy=remedy)


@pytest.mark.parametrize("name", OWN)
def test_a_file_of_ours_is_used(name: str, tmp_path: Path) -> None:
    """The control: what is refused below is refused for what stands in its place."""
    own = OWN[name]
    file = set_up(own, tmp_path)
    file.write_bytes(own.content)
    file.chmod(0o600)
    own.use(tmp_path)
    assert take_repairs() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OWN)
def test_what_stands_in_the_place_of_a_file_of_ours_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    own, (make, why) = OWN[name], KINDS[kind]
    file = set_up(own, tmp_path)
    make(file)
    assert refusal(own, tmp_path) == expected(own, tmp_path, file, why, f"move {file} away")


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("name", OWN)
def test_a_file_of_another_user_is_refused(name: str, tmp_path: Path) -> None:
    own = OWN[name]
    file = set_up(own, tmp_path)
    file.write_bytes(own.content)
    os.chown(file, OTHER, OTHER)
    why = f"belongs to user {OTHER}, and Paddock runs as user 0"
    remedy = f"move {file} away, or run: chown 0 {file}"
    assert refusal(own, tmp_path) == expected(own, tmp_path, file, why, remedy)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o000])
@pytest.mark.parametrize("name", OWN)
def test_the_mode_of_a_file_of_ours_is_set_right_and_told(
    name: str, mode: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = OWN[name]
    file = set_up(own, tmp_path)
    file.write_bytes(own.content)
    file.chmod(mode)
    own.use(tmp_path)
    if file.exists():  # SQLite removes its own, and the vault is written anew
        assert file.stat().st_mode & 0o777 == 0o600
    told = {
        0o644: "it can be read by others (mode 0644)",
        0o660: "it can be changed by others (mode 0660)",
        0o000: "it is closed to its owner (mode 0000)",
    }[mode]
    assert caplog.messages == [f"{file}: {told}; its mode is 0600 now"]
    assert [tuple(repair) for repair in take_repairs()] == [
        (str(file), mode, 0o600) for _ in caplog.messages if "ledger" not in name
    ]
    if "ledger" in name:
        with Ledger(tmp_path / "audit") as ledger:
            [record] = ledger.query(event="repaired")
        assert (record.request, record.fields) == (
            "",
            {"path": str(file), "mode_before": f"{mode:04o}", "mode_after": "0600"},
        )


LARGE = {"secrets", "key", "pins", "logins", "webhooks", "moment", "trust", "registry", "token"}
"""What is read whole."""


@pytest.mark.parametrize("name", sorted(LARGE))
def test_a_file_that_is_too_large_is_not_read(name: str, tmp_path: Path) -> None:
    own = {**OWN, **OBEYED}[name]
    file = set_up(own, tmp_path)
    file.touch(mode=0o600)
    os.truncate(file, 1 << 40)
    told = refusal(own, tmp_path)
    most = told.partition("it is larger than ")[2].partition(" ")[0]
    assert int(most) <= 64 * 1024 * 1024
    assert told == expected(own, tmp_path, file, f"is larger than {most} bytes", f"move {file} away")


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to a device"])
@pytest.mark.parametrize("name", OBEYED)
def test_what_a_person_writes_is_a_regular_file(name: str, kind: str, tmp_path: Path) -> None:
    own, (make, why) = OBEYED[name], KINDS[kind]
    file = set_up(own, tmp_path)
    make(file)
    why = "is a device, not a regular file" if kind == "link to a device" else why
    assert refusal(own, tmp_path) == expected(own, tmp_path, file, why, f"move {file} away")


@pytest.mark.parametrize("name", OBEYED)
def test_what_a_person_writes_may_be_elsewhere(name: str, tmp_path: Path) -> None:
    own = OBEYED[name]
    file = set_up(own, tmp_path)
    (tmp_path / "elsewhere").write_bytes(own.content)
    (tmp_path / "elsewhere").chmod(0o600)
    file.symlink_to(tmp_path / "elsewhere")
    own.use(tmp_path)


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("name", OBEYED)
def test_what_another_user_may_have_written_is_not_obeyed(name: str, tmp_path: Path) -> None:
    own = OBEYED[name]
    file = set_up(own, tmp_path)
    file.write_bytes(own.content)
    file.chmod(0o600)
    os.chown(file, OTHER, OTHER)
    why = f"belongs to user {OTHER}, and Paddock runs as user 0"
    remedy = f"move {file} away, or run: chown 0 {file}"
    assert refusal(own, tmp_path) == expected(own, tmp_path, file, why, remedy)


@pytest.mark.parametrize("kind", [*KINDS, "another user's"])
def test_what_is_worth_nothing_is_made_anew(kind: str, tmp_path: Path) -> None:
    """Caches and types of results: nothing depends on them, and what stands in their place is not believed."""
    for use in (parsed, compiled, types):
        folder = tmp_path / use.__name__
        folder.mkdir(mode=0o700)
        use(folder, lambda file: replaced(file, kind))


def replaced(file: Path, kind: str) -> None:
    if kind == "another user's":
        os.chown(file, OTHER, OTHER) if os.geteuid() == 0 else None
        return
    file.unlink()
    KINDS[kind][0](file)


def parsed(folder: Path, replace: Callable[[Path], None]) -> None:
    answers = ParseCache(folder)
    answers.store("1", "js", b"answer")
    [file] = folder.iterdir()
    replace(file)
    assert answers.look_up("1", "js") is None
    answers.store("1", "js", b"answer")


def compiled(folder: Path, replace: Callable[[Path], None]) -> None:
    (folder / "made").write_bytes(b"program")
    cache = Cache(folder / "cache", 1_000_000)
    cache.keep("name", folder / "made")
    [file] = (folder / "cache" / "name").iterdir()
    replace(file)
    taken = Cache(folder / "cache", 1_000_000).take("name", folder / "taken", owner=None)
    assert not taken or (folder / "taken").read_bytes() == b"program"


def types(folder: Path, replace: Callable[[Path], None]) -> None:
    result = ToolResult({"content": [{"type": "text", "text": '{"a": 1}'}]})
    InferredTypes(folder, folder / ".mcp.json").learn_from_result(SERVER, TOOL, result)
    replace(memory_of(folder, folder / ".mcp.json") / "observed.json")
    observed = InferredTypes(folder, folder / ".mcp.json")
    assert observed.type_of("git", "log") is None
    observed.learn_from_result(SERVER, TOOL, result)
    assert observed.type_of("git", "log") is not None


DIRECTORIES = {
    "vault": (VAULT, OWN["secrets"].use),
    "audit": (LEDGER, OWN["ledger's head"].use),
    "artifacts": (OWN["stored output"].told, OWN["stored output"].use),
}
"""What is said, by which use, of each directory that is closed to others."""


@pytest.mark.parametrize("name", DIRECTORIES)
@pytest.mark.parametrize("kind", ["link", "open to be written to", "another user's"])
def test_a_directory_that_is_not_ours_alone_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    told, use = DIRECTORIES[name]
    own = Own(name, b"", use, told)
    directory = tmp_path / name
    directory.mkdir(mode=0o700)
    remedy = f"move {directory} away"
    match kind:
        case "link":
            directory.rename(tmp_path / "elsewhere")
            directory.symlink_to("elsewhere")
            why = "is a link, not a directory"
        case "another user's" if os.geteuid() == 0:
            os.chown(directory, OTHER, OTHER)
            why = f"belongs to user {OTHER}, and Paddock runs as user 0"
            remedy += f", or run: chown 0 {directory}"
        case _:
            directory.chmod(0o770)
            why = "can be written to by others (mode 0770), who may have put files there"
            remedy = f"check what it contains, then run: chmod 700 {directory}"
    assert refusal(own, tmp_path) == expected(own, tmp_path, directory, why, remedy)


@pytest.mark.parametrize("name", DIRECTORIES)
@pytest.mark.parametrize("mode", [0o755, 0o000])
def test_the_mode_of_a_directory_of_ours_is_set_right(name: str, mode: int, tmp_path: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    directory.chmod(mode)
    DIRECTORIES[name][1](tmp_path)
    assert directory.stat().st_mode & 0o777 == 0o700
