"""The installation: a separate, confined job, which sees no workspace and has the network only if that is granted."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.protocol import GuardingSandbox, HostProxy, SandboxSlot, Streams
from paddock.engines.packages.interface import PackageInterpreter, PackagesError
from paddock.engines.packages.registries import PROXY_VARIABLES, Registries
from paddock.foundation.files import make_temporary_directory
from paddock.model.limits import KIB, MIB
from paddock.model.outcome import Status
from paddock.model.process import GIB, ProcessGrants, ProcessLimits, ProcessResult
from paddock.policy.settings.packages import PackageSettings

_MEMORY_BYTES = 3 * GIB
_WORKING_BYTES = 512 * MIB
"""Disk that an installation may use besides the unpacked packages: archives, indexes."""
_MAX_LOCK_BYTES = 16 * MIB
_MAX_ERROR_CHARS = 2000
_COMMAND_PATH = "/usr/local/bin:/usr/bin:/bin"
_HIDDEN = "****"
_NO_WHEEL = ("no usable wheels", "has no wheels", "building source distributions is disabled")
"""What uv prints of a package that it would have to build."""


class Installation(NamedTuple):
    """What the steps of one installation have in common."""

    settings: PackageSettings
    interpreter: PackageInterpreter
    registries: Registries
    sandbox: GuardingSandbox
    stop: asyncio.Event | None
    hosts: HostProxy | None = None
    """What serves the proxy of its steps, with `packages.network = "hosts"`."""

    def hide(self, text: str) -> str:
        """Return a text without the credentials of the registries."""
        for secret in sorted(self.registries.secrets, key=len, reverse=True):
            text = text.replace(secret, _HIDDEN)
        return text


class FinishedStep(NamedTuple):
    """A step that has succeeded. Its files last as long as the context of `run_step`."""

    scratch: Path
    stdout: bytes


@asynccontextmanager
async def run_step(
    installation: Installation,
    script: str,
    arguments: Sequence[str],
    *,
    files: Mapping[str, bytes],
    environment: Mapping[str, str],
    what: str,
    moved: Mapping[str, Path] = MappingProxyType({}),
) -> AsyncGenerator[FinishedStep]:
    """Run a shell script in a sandbox and yield its end.

    `$1` in the script is the installer, and the `arguments` follow. `what` names the step in errors. Directories of an
    earlier step are `moved` into scratch, as far as they are there and on the same file system. Raises PackagesError
    when the step fails or is stopped, and EngineError as sandboxes do.
    """
    with make_temporary_directory("paddock-packages-") as empty:
        empty.chmod(0o755)  # the job may run as another user
        grants = _make_grants(installation, empty, environment)
        settings = installation.settings
        limits = ProcessLimits(
            timeout_ms=settings.timeout_ms,
            cpu_ms=settings.timeout_ms * (os.cpu_count() or 1),
            memory_bytes=_MEMORY_BYTES,
            file_bytes=settings.max_bytes + _WORKING_BYTES,
            scratch_bytes=settings.max_bytes + _WORKING_BYTES,
            stdout_bytes=_MAX_LOCK_BYTES,
            kept_bytes=64 * KIB,
        )
        slot = await installation.sandbox.take_slot(grants, limits)
        try:
            if installation.hosts is not None:
                own = installation.hosts.prepare(slot.scratch)
                # Without the user's proxy: what serves the step's own one goes through it.
                others = {
                    name: value
                    for name, value in grants.environment.items()
                    if name.upper() not in PROXY_VARIABLES
                }
                grants = grants.replace(environment={**own, **others})
            installer = await asyncio.to_thread(_fill, slot, installation, files)
            for name, earlier in moved.items():
                with contextlib.suppress(OSError):
                    earlier.rename(slot.scratch / name)
            said = bytearray()

            def take(data: bytes) -> None:
                if len(said) + len(data) <= _MAX_LOCK_BYTES:
                    said.extend(data)

            on_proxy_socket = installation.hosts.serve if installation.hosts is not None else None
            streams = Streams(stdout=take, on_proxy_socket=on_proxy_socket)
            command = ["/bin/sh", "-euc", script, "sh", installer, *arguments]
            ended = await installation.sandbox.run(
                command, grants, limits, streams, slot=slot, stop=installation.stop
            )
            if ended.status is not Status.OK or ended.survivors:
                raise _explain_end(installation, ended, what)
            yield FinishedStep(slot.scratch, bytes(said))
        finally:
            slot.release()


def _make_grants(installation: Installation, empty: Path, environment: Mapping[str, str]) -> ProcessGrants:
    # The directory decides the user: with one, a job of root may keep its number, as the program does. It is empty.
    network = "none" if installation.registries.is_local else installation.settings.network
    return ProcessGrants(
        workspace=empty if installation.interpreter.has_workspace else None,
        access="read-only" if installation.interpreter.has_workspace else "none",
        folder=".",
        network=network,
        readable=(
            *installation.interpreter.readable,
            *installation.registries.readable,
            *([installation.interpreter.installer] if _can_reach(installation) else []),
        ),
        environment={"PATH": _COMMAND_PATH, **environment},
    )


def _can_reach(installation: Installation) -> bool:
    """Return whether the user of the installation can reach the installer; otherwise it gets a copy."""
    grants = ProcessGrants(access="none")
    user = installation.sandbox.user(grants) if not installation.interpreter.has_workspace else None
    return user is None or not permissions.find_barrier(str(installation.interpreter.installer), user)


def _fill(slot: SandboxSlot, installation: Installation, files: Mapping[str, bytes]) -> str:
    """Write the files of a step into scratch; return the path of the installer for it."""
    scratch = slot.scratch
    owner = scratch.stat().st_uid
    for name, data in files.items():
        path = scratch / name
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as stream:
            stream.write(data)
        os.chown(path, owner, -1)
    if _can_reach(installation):
        return str(installation.interpreter.installer)
    copied = scratch / installation.interpreter.installer.name
    shutil.copyfile(installation.interpreter.installer, copied)
    copied.chmod(0o700)
    os.chown(copied, owner, -1)
    return str(copied)


def _explain_end(installation: Installation, ended: ProcessResult, what: str) -> PackagesError:
    if ended.status is Status.CANCELLED:
        return PackagesError("cancelled during the installation of packages", status=Status.CANCELLED)
    match ended.limit:
        case "wall" | "cpu":
            seconds = installation.settings.timeout_ms // 1000
            return PackagesError(
                f"{what} took longer than {seconds} s",
                "try again, or raise packages.timeout_ms in the settings",
            )
        case "scratch" | "file_size":
            return PackagesError(
                f"{what} was ended: the packages have more than {installation.settings.max_bytes} bytes",
                "raise packages.max_bytes in the user's paddock.toml",
            )
        case None:
            pass
        case limit:
            return PackagesError(f"{what} was ended by its limit on {limit}")
    text = installation.hide(
        f"{ended.stderr.text}\n{ended.stdout.text if not ended.stderr.text else ''}".strip()
    )
    said = text[-_MAX_ERROR_CHARS:] or ended.reason or f"exit code {ended.exit_code}"
    return PackagesError(f"{what} failed: {said}", _find_hint(installation, said))


def _find_hint(installation: Installation, said: str) -> str:
    """Return the remedy for a failure that the settings cause; "" for others."""
    if installation.settings.builds or not any(sign in said for sign in _NO_WHEEL):
        return ""
    return (
        "only wheels are installed, because a source distribution runs code of its own; choose a version with a "
        "wheel, or set `builds = true` under [packages] in the user's paddock.toml"
    )
