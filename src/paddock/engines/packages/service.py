"""The one entrance: `Packages.provide` yields an environment with the packages of a program.

    remembered and undamaged -> in use
    otherwise                -> resolve to a lockfile -> check every name -> the same lockfile is there?
                             -> install -> in use

The file lock of an entry is shared while it is in use, so that no sweep removes it. Whoever makes an environment holds
the file lock of its requirements; others wait for it and then find it.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager

from paddock.confinement.sandbox.protocol import GuardingSandbox, OpenHosts
from paddock.engines.packages import node, python
from paddock.engines.packages.hosts import grant_registries
from paddock.engines.packages.installation import Installation
from paddock.engines.packages.interface import (
    PackageInterpreter,
    PackagesError,
    Provided,
    WantedPackages,
    report_progress,
)
from paddock.engines.packages.registries import Registries, read_registries
from paddock.engines.packages.store import (
    FORMAT_VERSION,
    EnvironmentManifest,
    Staging,
    Store,
    measure,
    name_environment,
)
from paddock.model.base import count
from paddock.model.canonical import canonical
from paddock.model.network import NetworkRule
from paddock.model.outcome import Status
from paddock.policy.settings.packages import PackageSettings

_POLL_S = 0.02
_SHOWN_NAMES = 5


class Packages:
    """Environments with packages, under one set of settings. `environ` has the user's configuration of registries."""

    def __init__(
        self, settings: PackageSettings, environ: Mapping[str, str], rules: Sequence[NetworkRule] = ()
    ) -> None:
        """Follow the `rules` on hosts besides what the registries need."""
        self._settings = settings
        self._rules = rules
        self._environ = environ
        self.store = Store(settings.directory, settings.cache_bytes)

    @asynccontextmanager
    async def provide(
        self,
        wanted: WantedPackages,
        interpreter: PackageInterpreter,
        sandbox: GuardingSandbox,
        open_hosts: OpenHosts,
        stop: asyncio.Event | None = None,
    ) -> AsyncGenerator[Provided]:
        """Yield an environment with the wanted packages; it is kept until the end of the context.

        Installs them first if they are not there; `open_hosts` makes what serves the connections of that. Setting
        `stop`, or cancelling the task, ends it and leaves nothing.
        Raises PackagesError with the reason and the remedy, EngineError as sandboxes do.
        """
        registries = await asyncio.to_thread(
            read_registries, wanted.installer, self._environ, self._settings.registries
        )
        origin = self._list_origin(wanted, interpreter, registries)
        digest = _hash("request", wanted.digest, self._settings.exclude_newer, *origin)
        with ExitStack() as in_use:
            if (remembered := await self._use_remembered(digest, in_use, stop)) is not None:
                key, manifest = remembered
                self._check_names(wanted.language, manifest.packages)
            else:
                installation = Installation(self._settings, interpreter, registries, sandbox, stop)
                try:
                    async with self._connect(wanted, installation, open_hosts) as connected:
                        key = await self._make(wanted, connected, digest, in_use)
                except OSError as error:
                    raise PackagesError(
                        f"the packages cannot be stored: {error.strerror or error}",
                        f"see to {self._settings.directory}, or set packages.directory to another one",
                    ) from error
                manifest = self.store.find(key)
                if manifest is None:
                    raise PackagesError("the environment was removed while it was made", "try again")
            yield Provided(name_environment(key, manifest), self.store.locate(key))

    async def _use_remembered(
        self, digest: str, in_use: ExitStack, stop: asyncio.Event | None
    ) -> tuple[str, EnvironmentManifest] | None:
        """Return the entry that equal requirements had last time, whose shared lock `in_use` then has, or None."""
        if not (key := self.store.recall(digest)):
            return None
        with ExitStack() as lock:
            await self._lock(lock, key, shared=True, stop=stop)
            manifest = self.store.find(key)
            if manifest is None:
                return None
            in_use.push(lock.pop_all())
            return key, manifest

    @asynccontextmanager
    async def _connect(
        self, wanted: WantedPackages, installation: Installation, open_hosts: OpenHosts
    ) -> AsyncGenerator[Installation]:
        """Yield the installation with what serves the connections of its steps, if it has any."""
        if self._settings.network != "hosts" or installation.registries.is_local:
            yield installation
            return
        hosts = open_hosts(grant_registries(wanted.installer, installation.registries.names, self._rules))
        hosts.begin()
        try:
            yield installation._replace(hosts=hosts)
        finally:
            await hosts.close()

    def _list_origin(
        self, wanted: WantedPackages, interpreter: PackageInterpreter, registries: Registries
    ) -> list[object]:
        """Return everything besides the lock that the content of an environment depends on, or who may share it."""
        builds = self._settings.builds
        return [
            FORMAT_VERSION,
            wanted.installer,
            interpreter.identity,
            list(registries.names),
            builds,
            wanted.actor if builds else "",
        ]

    async def _make(
        self, wanted: WantedPackages, installation: Installation, digest: str, in_use: ExitStack
    ) -> str:
        """Resolve and install; return the key, whose shared lock `in_use` then has."""
        tool = python if wanted.installer == "uv" else node
        self._check_reach(wanted, installation)
        await asyncio.to_thread(self.store.prepare)
        with ExitStack() as making:
            await self._lock(making, digest, shared=False, stop=installation.stop)
            if (remembered := await self._use_remembered(digest, in_use, installation.stop)) is not None:
                return remembered[0]  # another process made it meanwhile
            report_progress(f"resolving {count(len(wanted.requirements), 'package')}")
            with self.store.stage() as staging:
                lock = await tool.resolve(installation, wanted, staging)
                packages = tool.list_packages(lock)
                self._check_names(wanted.language, packages)
                origin = self._list_origin(wanted, installation.interpreter, installation.registries)
                key = _hash("environment", hashlib.sha256(lock).hexdigest(), *origin)
                await self._lock(making, f"{key}.make", shared=False, stop=installation.stop)
                if self.store.find(key) is None:
                    report_progress(f"installing {count(len(packages), 'package')}")
                    await tool.install(installation, lock, staging)
                    manifest = await asyncio.to_thread(
                        self._describe, wanted, installation, lock, packages, staging
                    )
                    await asyncio.to_thread(self.store.publish, staging, key, manifest)
            self.store.remember(digest, key)
            # A sweep before the shared lock is held shows as a missing entry.
        await self._lock(in_use, key, shared=True, stop=installation.stop)
        return key

    def _describe(
        self,
        wanted: WantedPackages,
        installation: Installation,
        lock: bytes,
        packages: list[str],
        staging: Staging,
    ) -> EnvironmentManifest:
        """Return the manifest of what was installed. Raises OSError."""
        measured = measure(staging.environment)
        return EnvironmentManifest(
            language=wanted.language,
            requirements=sorted(set(wanted.requirements)),
            packages=packages,
            lock_sha256=hashlib.sha256(lock).hexdigest(),
            registries=list(installation.registries.names),
            builds=self._settings.builds,
            interpreter=str(installation.interpreter.executable),
            size_bytes=measured.size_bytes,
            file_count=measured.file_count,
            made_at=int(time.time()),
            directories=measured.directories,
            files_sha256=measured.files_sha256,
        )

    async def _lock(self, held: ExitStack, name: str, *, shared: bool, stop: asyncio.Event | None) -> None:
        """Wait for a lock of the store. Raises PackagesError when `stop` is set meanwhile."""
        waited = False
        while True:
            attempt = ExitStack()
            if attempt.enter_context(self.store.try_lock(name, shared=shared)):
                held.push(attempt.pop_all())
                return
            attempt.close()
            if stop is not None and stop.is_set():
                raise PackagesError(
                    "cancelled while another process installed packages", status=Status.CANCELLED
                )
            if not waited:
                report_progress("waiting for another process that installs the same packages")
            waited = True
            await asyncio.sleep(_POLL_S)

    def _check_reach(self, wanted: WantedPackages, installation: Installation) -> None:
        """Raise PackagesError if an installation is not permitted, or would give a secret to code of packages."""
        names = ", ".join(wanted.requirements[:_SHOWN_NAMES]) or "the packages"
        network, registries = self._settings.network, installation.registries
        tier = installation.sandbox.tier
        if not registries.is_local and (network == "none" or (network == "hosts" and tier != "namespaces")):
            add = " ".join(f"'{name}'" for name in wanted.requirements[:_SHOWN_NAMES])
            why, needed = (
                ('the installation has no network (packages.network = "none")', "hosts")
                if network == "none"
                else (
                    f"its network, the hosts of the registries, needs the tier namespaces, not {tier}",
                    "full",
                )
            )
            raise PackagesError(
                f"{names} must be installed first, and {why}",
                f'set `network = "{needed}"` under [packages] in the user\'s paddock.toml, or install it once: '
                f"paddock packages add --language {wanted.language} --set packages.network={needed} {add}",
            )
        if self._settings.builds and registries.has_credentials:
            raise PackagesError(
                "packages.builds is on, and the configuration of registries contains credentials, which build "
                "scripts could read",
                "turn packages.builds off, or configure a registry without credentials",
            )

    def _check_names(self, language: str, packages: Iterable[str]) -> None:
        """Raise PackagesError for the first package, also a dependency, that the settings do not allow."""
        for package in packages:
            name = package.partition("==")[0]
            if rule := self._settings.find_objection(language, name):
                raise PackagesError(
                    f"the package {package} is not allowed by {rule}",
                    f"change `{rule.removeprefix('packages.')}` under [packages] in the settings",
                    status=Status.DENIED,
                )


def _hash(*parts: object) -> str:
    return hashlib.sha256(canonical(parts)).hexdigest()
