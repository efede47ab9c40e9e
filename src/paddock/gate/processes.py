"""The process sandbox of an opened Paddock, created at its first use."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path, user_config_path, user_data_path, user_state_path

from paddock.policy.settings.hiding import ALWAYS_SHOWN
from paddock.policy.settings.schema import Settings, WorkspaceSettings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.child.hiding import HidingRules
    from paddock.confinement.sandbox.protocol import GuardingSandbox, Sandbox
    from paddock.confinement.sandbox.sandbox import KernelSandbox
    from paddock.confinement.sandbox.state_paths import StateFile
    from paddock.model.sandbox import Tier


def own_directories(settings: Settings) -> list[Path]:
    """Return the directories in which Paddock keeps its own files. A program reaches them only by an explicit grant."""
    named = [
        settings.audit.directory,
        settings.artifacts.directory,
        settings.overlay.directory,
        settings.record.directory,
        settings.approvals.directory,
        settings.vault.directory,
        settings.servers.state,
        settings.serve.directory,
        settings.ui.directory,
        settings.sdk.temporals,
        settings.packages.directory,
    ]
    return [
        *(where("paddock") for where in (user_config_path, user_state_path, user_cache_path, user_data_path)),
        *named,
    ]


def installation_paths() -> list[Path]:
    """Return the directories of Paddock and its libraries. A program that changes them runs code unconfined."""
    package = Path(__file__).parents[1]
    beside = package.parent
    packages = beside if beside.name in {"site-packages", "dist-packages"} else package
    environment = [Path(sys.prefix)] if sys.prefix != sys.base_prefix else []
    return [*environment, packages, Path(os.__file__).parent, Path(os.path.realpath(sys.executable)).parent]


def own_files(settings: Settings) -> "tuple[StateFile, ...]":
    """Return Paddock's files outside of those directories, and files that decide what it runs and whom it trusts."""
    from paddock.confinement.sandbox import state_paths

    named = [
        state_paths.StateFile("sdk.webhooks", str(settings.sdk.webhooks)),
        state_paths.StateFile("sdk.signals", str(settings.sdk.signals)),
        state_paths.StateFile("servers.trust", str(settings.servers.trust), readable=True),
        state_paths.StateFile("servers.registry", str(settings.servers.registry), readable=True),
    ]
    secret = {
        "cluster.key_file": settings.cluster.key_file,
        "cluster.checkpoint_key_file": settings.cluster.checkpoint_key_file,
        "vault.key_file": settings.vault.key_file,
    }
    named += [state_paths.StateFile(name, str(file)) for name, file in secret.items() if file is not None]
    if settings.servers.config is not None:
        named.append(state_paths.StateFile("servers.config", str(settings.servers.config), readable=True))
    if (source := settings.servers.registry_source) and "://" not in source:
        place = os.path.expanduser(source)  # reading the file rejects a path without a home
        named.append(state_paths.StateFile("servers.registry_source", place, readable=True))
    own = state_paths.list_own_directories(own_directories(settings))
    return tuple(file for file in named if not state_paths.keeper(own, os.path.realpath(file.path)))


def read_hiding(settings: WorkspaceSettings) -> "HidingRules":
    """Return which files no program can read."""
    from paddock.confinement.sandbox.child.hiding import HidingRules

    return HidingRules(tuple(settings.hide), (*ALWAYS_SHOWN, *settings.show))


class Processes:
    """The process sandbox of an opened Paddock. Its tier is chosen and proved at the first use, which takes 0.2 s."""

    def __init__(
        self,
        settings: Settings,
        own: Sequence[Path],
        files: "Callable[[], tuple[StateFile, ...]]" = tuple,
        prepare: Callable[[], None] = lambda: None,
        sandbox: "Sandbox | None" = None,
    ) -> None:
        """Keep programs out of Paddock's `own` directories and `files`; call `prepare` before any use.

        Run them in `sandbox`, once it is proved, instead of one of Paddock's own. Its owner closes it.
        """
        self._given = sandbox
        self._settings = settings.sandbox
        self._workspace = settings.workspace
        self._own = own
        self._files = files
        self._prepare = prepare
        self._sandbox: GuardingSandbox | None = None
        self._close: Callable[[], Awaitable[None]] | None = None
        self._choosing = asyncio.Lock()

    async def open_sandbox(self) -> "GuardingSandbox":
        """Return the sandbox.

        Raises EngineError, with the remedy, when this machine offers less than the minimum tier, and ConfigurationError
        when the configured user does not exist. The next call tries again.
        """
        from paddock.confinement.sandbox import spec, state_paths, tiers
        from paddock.confinement.sandbox.checked import check_sandbox

        self._prepare()
        async with self._choosing:
            if self._sandbox is None:
                own = state_paths.list_own_directories(self._own)
                installed = state_paths.list_own_directories(installation_paths())
                protection = spec.read_protection(
                    self._settings.protected, self._settings.unprotected, os.environ
                )
                if self._given is not None:
                    self._sandbox = await check_sandbox(
                        self._given,
                        self._settings.minimum_tier,
                        own=own,
                        installed=installed,
                        files=self._files(),
                        hiding=read_hiding(self._workspace),
                        protection=protection,
                    )
                    return self._sandbox
                chosen = await tiers.choose(
                    self._settings.minimum_tier,
                    job_user=spec.read_configured_user(self._settings.job_user),
                    spares=self._settings.spares,
                    protected_paths=self._settings.protected_paths,
                    protection=protection,
                    hiding=read_hiding(self._workspace),
                    repositories=self._workspace.repository,
                    own=own,
                    installed=installed,
                    files=self._files(),
                )
                return self.use_sandbox(chosen)
        return self._sandbox

    def use_sandbox(self, sandbox: "KernelSandbox") -> "GuardingSandbox":
        """Run programs in a sandbox that has been chosen, and close it with the Paddock."""
        self._sandbox, self._close = sandbox, sandbox.close
        return sandbox

    @property
    def proved_tier(self) -> "Tier | None":
        """The tier that was proved; None before the first use."""
        return None if self._sandbox is None else self._sandbox.tier

    async def prove_tier(self) -> "Tier":
        """Return the proved tier. Raises the errors of `open_sandbox`."""
        return (await self.open_sandbox()).tier

    async def close(self) -> None:
        """End every process that the sandbox started."""
        async with self._choosing:
            close, self._close, self._sandbox = self._close, None, None
            if close is not None:
                await close()
