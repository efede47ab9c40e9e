"""The files of deploy/, without systemd and without a container engine: their facts, and their commands run here."""

import http.server
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from tests.support.command import PADDOCK
from tests.support.http_api import ApiPlace, ApiServer, read_problem
from tests.support.processes import PATIENCE_S

from paddock.policy.settings.schema import Settings
from paddock.surfaces.http_api import service
from paddock.surfaces.http_api.service_routes import OPEN_PATHS, READINESS_PATHS

ROOT = Path(__file__).resolve().parents[2]
UNIT = (ROOT / "deploy/paddock.service").read_text()
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
CONTAINER = COMPOSE["services"]["paddock"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs/deploy.md").read_text()
PORT = 8700
LONGEST_END_S = Settings().mcp.shutdown_grace_ms / 1000 + service._ANSWERS_S
BREAKS_PROGRAMS = {
    "LoadCredential",
    "MemoryDenyWriteExecute",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelTunables",
    "RestrictNamespaces",
    "RestrictSUIDSGID",
    "SystemCallFilter",
}
"""Options with which the server or its programs would not start."""
KNOWN = {
    "Unit": {"Description", "After", "Wants"},
    "Service": {
        *("Type", "User", "Group", "UMask", "StateDirectory", "StateDirectoryMode", "WorkingDirectory"),
        *("Environment", "ExecStart", "Restart", "RestartSec", "KillMode", "TimeoutStopSec"),
        *("Delegate", "OOMPolicy", "LimitNOFILE", "NoNewPrivileges", "CapabilityBoundingSet"),
        *("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateIPC"),
        *("ProtectKernelModules", "RestrictAddressFamilies", "RestrictRealtime", "LockPersonality"),
        "SystemCallArchitectures",
    },
    "Install": {"WantedBy"},
}
"""The options that systemd.unit(5), systemd.service(5) and systemd.exec(5) have, of those that the unit uses."""


def read_options(unit: str) -> list[tuple[str, str, str]]:
    """Return section, name and value of each option of a unit, as systemd.syntax(7) says."""
    options: list[tuple[str, str, str]] = []
    section = ""
    lines = [line for line in unit.splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            name, _, value = line.partition("=")
            options.append((section, name, value))
    return options


SERVICE = {name: value for section, name, value in read_options(UNIT) if section == "Service"}


def find_faults(file: Path) -> list[str]:
    """Return what systemd rejects in a unit; without systemd, the options that this test does not know."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        options = read_options(file.read_text())
        return [name for section, name, _ in options if name not in KNOWN.get(section, set())]
    done = subprocess.run(
        [analyze, "verify", "--man=no", file], capture_output=True, text=True, check=False, timeout=60
    )
    return (done.stdout + done.stderr).splitlines()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    assert find_faults(ROOT / "deploy/paddock.service") == []
    wrong = tmp_path / "wrong.service"
    wrong.write_text(UNIT.replace("ProtectHome=", "ProtectHomes="))
    [fault] = find_faults(wrong)
    assert "ProtectHomes" in fault


def test_this_test_knows_the_options_of_the_unit() -> None:
    used = {section: {name for found, name, _ in read_options(UNIT) if found == section} for section in KNOWN}
    assert used == KNOWN


def test_the_unit_has_no_option_that_breaks_programs() -> None:
    assert SERVICE.keys() & BREAKS_PROGRAMS == set()
    comments = " ".join(line for line in UNIT.splitlines() if line.startswith("#"))
    assert {name for name in BREAKS_PROGRAMS if not re.search(rf"\b{name}\b", comments)} == set()


def test_the_unit_lets_the_server_drain_and_limit_its_programs() -> None:
    assert (SERVICE["KillMode"], SERVICE["Restart"], SERVICE["OOMPolicy"]) == (
        "mixed",
        "on-failure",
        "continue",
    )
    assert int(SERVICE["TimeoutStopSec"]) > LONGEST_END_S
    assert SERVICE["Delegate"].split() == ["memory", "pids"]


@contextmanager
def start_server(command: list[str], place: ApiPlace, **variables: str) -> Iterator[ApiServer]:
    """Run the command of a server."""
    process = subprocess.Popen(
        command,
        cwd=place.workspace,
        env={**place.environment, **variables},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line.startswith("listening on "), line + process.stderr.read()
        yield ApiServer(process, line.removeprefix("listening on ").strip())
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def replace_each(text: str, replacements: dict[str, str]) -> str:
    """Replace texts that must each be there once or more."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_the_command_of_the_unit_serves_from_a_group_of_its_own(tmp_path: Path) -> None:
    place = ApiPlace(tmp_path)
    group, token = tmp_path / "cgroup/paddock.service", tmp_path / "token"
    group.mkdir(parents=True)
    (tmp_path / "self").write_text("1:name=systemd:/elsewhere\n0::/paddock.service\n")
    shell, flags, script = shlex.split(SERVICE["ExecStart"])
    script = replace_each(
        script,
        {
            "$$": "$",
            "/sys/fs/cgroup": str(tmp_path / "cgroup"),
            "/proc/self/cgroup": str(tmp_path / "self"),
            "/opt/paddock/bin/paddock": str(PADDOCK),
            "/var/lib/paddock/token": str(token),
            f"127.0.0.1:{PORT}": "127.0.0.1:0",
        },
    )
    options = "--allowed-host paddock.example.com"
    with start_server([shell, flags, script], place, SERVE_OPTIONS=options) as server:
        assert (group / "server/cgroup.procs").read_text() == "0\n"
        assert (group / "cgroup.subtree_control").read_text() == "+memory +pids\n"
        assert token.stat().st_mode & 0o777 == 0o600
        with server.client(token.read_text().strip()) as api:
            assert [api.get(path).status_code for path in ("/livez", *READINESS_PATHS)] == [200] * 3
            assert api.get("/v1/server", headers={"Host": "paddock.example.com"}).status_code == 200
            wrong = api.get("/v1/server", headers={"Host": "other.example.com"})
            assert read_problem(wrong)[:2] == (421, "wrong-host")
        server.process.send_signal(signal.SIGTERM)  # as KillMode=mixed does: to this process alone
        assert server.wait() == 0


def test_without_control_groups_the_unit_starts_nothing(tmp_path: Path) -> None:
    shell, flags, script = shlex.split(SERVICE["ExecStart"])
    (tmp_path / "cgroup").write_text("no group can be made below a file")
    script = replace_each(
        script,
        {"$$": "$", "/sys/fs/cgroup": str(tmp_path / "cgroup"), "/opt/paddock/bin/paddock": "echo"},
    )
    done = subprocess.run([shell, flags, script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == ""
    assert (done.returncode, "Not a directory" in done.stderr) == (1, True)


def test_the_command_of_the_container_serves_and_its_health_check_follows(tmp_path: Path) -> None:
    place = ApiPlace(tmp_path)
    joined = replace_each(
        "\n".join(CONTAINER["command"]),
        {f"0.0.0.0:{PORT}": "127.0.0.1:0", "/state": str(tmp_path)},
    )
    command = joined.split("\n")
    with start_server([str(PADDOCK), *command], place) as server:
        token = (tmp_path / "token").read_text().strip()
        with server.client(token) as api:
            assert api.run(language="javascript", code="return 6 * 7")["value"] == 42
        assert check_health(server.port) == 0
        server.stop()
        assert server.wait() == 0
        assert check_health(server.port) == 1


def test_a_server_that_ends_is_not_healthy() -> None:
    class Ending(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path in READINESS_PATHS else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Ending) as ending:
        thread = threading.Thread(target=ending.handle_request)
        thread.start()
        assert check_health(ending.server_port) == 1
        thread.join()


def check_health(port: int) -> int:
    """Return the exit code of the container's health check, asked at a port."""
    kind, _, flag, code = CONTAINER["healthcheck"]["test"]
    assert (kind, flag) == ("CMD", "-c")
    done = subprocess.run(
        [sys.executable, flag, replace_each(code, {str(PORT): str(port)})],
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=PATIENCE_S,
    )
    return done.returncode


def test_the_container_is_that_of_the_dockerfile() -> None:
    assert (ROOT / "deploy" / CONTAINER["build"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
    assert re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE) == [str(PORT)]
    assert CONTAINER["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"--http=0.0.0.0:{PORT}" in CONTAINER["command"]
    assert json.loads(re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE)[0]) == ["/state"]
    assert re.findall(r"^WORKDIR (.*)$", DOCKERFILE, re.MULTILINE)[-1] == "/workspace"
    assert CONTAINER["volumes"] == ["state:/state", "./workspace:/workspace:ro"]
    assert list(COMPOSE["volumes"]) == ["state"]
    assert re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE) == ['["paddock"]']
    [image_check] = re.findall(r'CMD \["(/opt/paddock/bin/python)", "-c"', DOCKERFILE)
    assert CONTAINER["healthcheck"]["test"][1] == image_check


def test_the_container_has_the_restrictions_of_the_guide() -> None:
    guide = (ROOT / "docs/docker.md").read_text()
    assert "--read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges" in guide
    restrictions = ("read_only", "tmpfs", "cap_drop", "security_opt")
    assert [CONTAINER[name] for name in restrictions] == [
        True,
        ["/tmp"],
        ["ALL"],
        ["no-new-privileges:true"],
    ]
    assert CONTAINER.keys() & {"privileged", "cap_add", "network_mode", "pid", "userns_mode"} == set()
    assert int(CONTAINER["stop_grace_period"].removesuffix("s")) > LONGEST_END_S


def test_the_page_says_what_the_files_do() -> None:
    variables = [value for _, name, value in read_options(UNIT) if name == "Environment"]
    assert variables == ["HOME=/var/lib/paddock", "SERVE_OPTIONS="]
    for text in (
        'Environment="SERVE_OPTIONS=--allowed-host ',
        "/var/lib/paddock/token",
        "/state/token",
        f"server paddock 127.0.0.1:{PORT} check",
        f"proxy_pass http://127.0.0.1:{PORT};",
    ):
        assert text in PAGE, text
    assert set(re.findall(r"^\| `(/\w+)` \|", PAGE, re.MULTILINE)) - OPEN_PATHS == {"/metrics"}
    assert {"/var/lib/paddock/token"} <= set(shlex.split(SERVICE["ExecStart"])[2].split())
    assert "--token-file=/state/token" in CONTAINER["command"]
