"""A PostgreSQL of a test's own, PgBouncer before it, and HAProxy before several servers."""

import atexit
import fcntl
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.processes import PATIENCE_S

_RESERVED_PORTS = os.open(
    Path(tempfile.gettempdir(), f"paddock-tests-ports-{os.geteuid()}"),
    os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
    0o600,
)
"""Byte N is locked by the test process that uses port N, until it ends (fcntl(2), record locks)."""
_OWN_PORTS: set[int] = set()
_BEHIND: dict[int, int] = {}
"""Port of the server behind each pooler of all tests, by the port of the pooler."""
MIN_MEMORY_BYTES = 2 * 1024**3
"""Minimum free space of a file system in memory on which servers keep their files; each needs some 60 MB."""


def find_free_port() -> int:
    """Return an unused port of loopback, which no other caller gets while this process runs.

    It is below the ports that the kernel gives to outgoing connections (ip(7), ip_local_port_range).
    """
    while True:
        port = 20_000 + secrets.randbelow(12_768)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            fcntl.lockf(_RESERVED_PORTS, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            if port not in _OWN_PORTS:  # its own locks do not stop a process
                _OWN_PORTS.add(port)
                return port


def find_listen_url(url: str) -> str:
    """Return what is `cluster.listen_url` for a `cluster.url`: the address without the pooler of all tests."""
    head, _, tail = url.rpartition(":")
    port, _, database = tail.partition("/")
    return f"{head}:{_BEHIND.get(int(port), port)}/{database}"


def make_directory() -> Path:
    """Make a directory for the files of a server: in memory if that has room, since a disk takes seconds to remove them."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free >= MIN_MEMORY_BYTES
    return Path(tempfile.mkdtemp(prefix="paddock-pg-", dir=memory if has_room else None))


@cache
def make_template(programs: Path, user: str | None) -> Path:
    """Return the files of a new server. They are made once for all servers of this process: that takes a second."""
    folder = make_directory()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if user is not None:
        shutil.chown(folder, user)
    command = [
        str(programs / "initdb"),
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--no-sync",
    ]
    made = folder / "data"
    done = subprocess.run(
        [*command, str(made)], user=user, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return made


class Postgres:
    """A database server on loopback, with its files in a directory of its own.

    It can be killed and started again. With `tls`, a file with a certificate and its key, it accepts nothing else.
    """

    def __init__(self, tls: Path | None = None, *, archives: bool = False) -> None:
        """`archives` keeps its log (WAL), so that `recover` can go back to a named moment after `back_up`."""
        [found] = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
        self._programs = found
        # PostgreSQL does not run as root.
        self._user = pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None
        self._root = make_directory()
        self._archives = archives
        self.port = find_free_port()
        self._tls = tls
        self._pooler = PgBouncer(self.port) if os.environ.get("TEST_CLUSTER_POOLER") else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the database `postgres`."""
        return self.find_url("postgres")

    def find_url(self, database: str) -> str:
        """Return the address of a database, through the pooler if all tests use one."""
        port = self._pooler.port if self._pooler else self.port
        return f"postgresql://postgres@127.0.0.1:{port}/{database}"

    @contextmanager
    def without_pooler(self) -> Iterator[None]:
        """Return addresses of the server itself meanwhile."""
        pooler, self._pooler = self._pooler, None
        try:
            yield
        finally:
            self._pooler = pooler

    def __enter__(self) -> Self:
        if self._user is not None:
            shutil.chown(self._root, self._user)
        template = make_template(self._programs, self._user)
        subprocess.run(["cp", "-a", template, self._root / "data"], check=True)
        if self._tls is not None:
            self._require_tls(self._tls)
        self.start()
        if self._pooler is not None:
            self._pooler.__enter__()
            _BEHIND[self._pooler.port] = self.port
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pooler is not None:
            self._pooler.__exit__(kind, error, trace)
        self.kill()
        shutil.rmtree(self._root, ignore_errors=True)

    def _require_tls(self, file: Path) -> None:
        data = self._root / "data"
        own = data / "server.pem"
        shutil.copy(file, own)
        own.chmod(0o600)
        if self._user is not None:
            shutil.chown(own, self._user)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write("ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.pem'\n")
        (data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        command = [
            # It ends with the process that started it, also if that is killed.
            *("setpriv", "--pdeathsig", "KILL", "--", str(self._programs / "postgres")),
            *("-D", str(self._root / "data"), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1"),
            *("-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=32MB"),
            # A server that is killed leaves other kinds behind.
            *("-c", "dynamic_shared_memory_type=mmap"),
            *(
                "-c",
                "fsync=off",
            ),  # tests kill its processes, and never the kernel, which keeps what was written
        ]
        if self._archives:
            (self._root / "log").mkdir(exist_ok=True)
            shutil.chown(self._root / "log", self._user or os.geteuid())
            keep = f"archive_command=cp %p {self._root}/log/%f"
            command += [
                "-c",
                "archive_mode=on",
                "-c",
                keep,
                "-c",
                f"restore_command=cp {self._root}/log/%f %p",
            ]
        self._process = subprocess.Popen(
            command,
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while self._ask_ready() != 0:
            assert self._process.poll() is None, "PostgreSQL ended"
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.05)
        # The pooler refuses for a moment what it could not connect.
        while self._pooler is not None and self._pooler.runs and not self._answers_behind(self._pooler):
            assert time.monotonic() < deadline, "the pooler does not reach PostgreSQL"
            time.sleep(0.05)

    def _answers_behind(self, pooler: "PgBouncer") -> bool:
        """Return whether a pooler has a connection for the database `postgres`."""
        command = [str(self._programs / "psql"), "-c", "select 1", pooler.find_url("postgres")]
        return subprocess.run(command, cwd="/", capture_output=True, check=False).returncode == 0

    def kill(self) -> None:
        """Kill it as a power failure would."""
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        # Its other processes have sessions of their own, and end when the first one has.
        deadline = time.monotonic() + PATIENCE_S
        while self._is_held():
            assert time.monotonic() < deadline, "processes of PostgreSQL remain"
            time.sleep(0.05)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.kill()
        self.start()

    def stand_by(self) -> None:
        """Be a standby from the next start on, which answers, and changes nothing."""
        (self._root / "data" / "standby.signal").touch()

    def dump(self, database: str) -> None:
        """Back a database up with pg_dump."""
        self._run("pg_dump", *self._place(), "-Fc", "-f", str(self._root / f"{database}.dump"), database)

    def restore(self, database: str) -> None:
        """Replace a database by its backup."""
        self._run("dropdb", *self._place(), "--force", database)
        self._run("createdb", *self._place(), database)
        self._run(
            "pg_restore",
            *self._place(),
            "--single-transaction",
            "-d",
            database,
            str(self._root / f"{database}.dump"),
        )

    def back_up(self) -> None:
        """Copy the files of the server, as the beginning for `recover`."""
        self._run("pg_basebackup", *self._place(), "-D", str(self._root / "base"), "-c", "fast", "-X", "none")

    def recover(self, moment: str) -> None:
        """Go back to a moment after `back_up` that `pg_create_restore_point` has named."""
        self.query("select pg_switch_wal()")
        while self.query(
            "select last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1) from pg_stat_archiver"
        ) != ["t"]:
            pass
        self.kill()
        (self._root / "data").rename(self._root / "lost")
        shutil.copytree(self._root / "base", self._root / "data", copy_function=shutil.copy)
        (self._root / "data").chmod(0o700)
        with (self._root / "data/postgresql.auto.conf").open("a") as file:
            file.write(f"recovery_target_name = '{moment}'\nrecovery_target_action = 'promote'\n")
        (self._root / "data/recovery.signal").touch()
        for path in [self._root / "data", *(self._root / "data").rglob("*")]:
            shutil.chown(path, self._user or os.geteuid())
        self.start()
        while self.query("select pg_is_in_recovery()") != ["f"]:
            pass

    def _place(self) -> tuple[str, ...]:
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    def make_database(self, name: str) -> str:
        """Make an empty database and return its address."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name)
        return self.find_url(name)

    def demand_password(self, user: str, password: str, *, owns: str) -> None:
        """Make a user who needs a password, and who owns a database."""
        self.query(f"create role {user} login password '{password}'")
        self.query(f"alter database {owns} owner to {user}")
        access = self._root / "data" / "pg_hba.conf"
        access.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
        self.query("select pg_reload_conf()")
        # The next connections may still get the old rules.
        while "no password supplied" not in self._connect_without_password(user, owns):
            pass

    def _connect_without_password(self, user: str, database: str) -> str:
        """Return what psql reports on standard error."""
        url = self.find_url(database).replace("postgres@", f"{user}@")
        command = [str(self._programs / "psql"), "--no-password", "-c", "select 1", url]
        return subprocess.run(command, cwd="/", capture_output=True, text=True, check=False).stderr

    def query(self, statement: str, database: str = "postgres") -> list[str]:
        """Return the lines that psql prints for a statement."""
        return self._run(
            "psql",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "postgres",
            "-AtX",
            "-c",
            statement,
            database,
        ).splitlines()

    def _ask_ready(self) -> int:
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode

    def _is_held(self) -> bool:
        """Return whether a process still uses its directory."""
        own = str(self._root / "data")
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    if str((entry / "cwd").readlink()) == own:
                        return True
                except OSError:
                    continue
        return False

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, user=self._user, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


class PgBouncer:
    """PgBouncer on loopback, which shares a few connections to a database server between transactions."""

    def __init__(self, port: int, *, connections: int = 5) -> None:
        """Pass on to a server at a port of loopback, with at most so many `connections` to each database."""
        self.port = find_free_port()
        self._root = Path(tempfile.mkdtemp(prefix="paddock-pgbouncer-"))
        # As it refuses to run as root, it runs as the user of PostgreSQL.
        self._user = pwd.getpwnam("postgres").pw_name if os.geteuid() == 0 else None
        self._root.chmod(0o755)
        users = self._root / "users"
        users.write_text("".join(f'"{name}" ""\n' for name in ("postgres", "guest", "stranger", "tenant")))
        self._file = self._root / "pgbouncer.ini"
        self._file.write_text(
            f"""\
[databases]
* = host=127.0.0.1 port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 1000
server_login_retry = 0.1
"""
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    def find_url(self, database: str) -> str:
        """Return the address of a database behind it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "/usr/sbin/pgbouncer", "--quiet", str(self._file)],
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _await_port(self.port, self._process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._root, ignore_errors=True)


class HaProxy:
    """HAProxy on loopback, round robin over servers. It sends a request to another server only if it could not connect."""

    def __init__(
        self, servers: Sequence[int], *, check_path: str = "/readyz", port: int | None = None
    ) -> None:
        """Balance over servers at ports of loopback, which must answer `check_path`."""
        self.port = find_free_port() if port is None else port
        self._root = Path(tempfile.mkdtemp(prefix="paddock-haproxy-"))
        lines = "\n".join(
            f"  server s{port} 127.0.0.1:{port} check inter 200 fall 1 rise 1" for port in servers
        )
        (self._root / "haproxy.cfg").write_text(
            f"""\
global
  maxconn 4000
defaults
  mode http
  timeout connect 2s
  timeout check 10s
  timeout client 120s
  timeout server 120s
  retries 3
  option redispatch 1
  retry-on conn-failure
frontend front
  bind 127.0.0.1:{self.port}
  default_backend replicas
backend replicas
  balance roundrobin
  option httpchk GET {check_path}
  http-response set-header x-served-by %s
{lines}
"""
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the balancer."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            "/usr/sbin/haproxy",
            "-db",
            "-f",
            str(self._root / "haproxy.cfg"),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _await_port(self.port, self._process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._root, ignore_errors=True)


def _await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a server accepts connections at a port of loopback."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.05)
        else:
            return
