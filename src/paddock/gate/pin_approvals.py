"""A person approves what the tools of a server have become, and the record has who did."""

from typing import TYPE_CHECKING

from paddock.foundation.store_threads import run_in_store_thread
from paddock.gate.work.kind import shorten_name
from paddock.model.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.engines.servers.pins import DefinitionChange
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.record.ledger.sink import Field


class PinApprovals:
    """Approvals by one person. All methods raise ConfigurationError, and LedgerError: then nothing is approved."""

    def __init__(self, opened: "OpenPaddock", actor: str, surface: str) -> None:
        self._servers = opened.servers
        self._audit = opened.gate.audit
        self._who: dict[str, Field] = {"actor": actor, "surface": surface}

    async def approve_shown(
        self, server: str, tools: "Sequence[str] | None"
    ) -> "tuple[DefinitionChange, ...]":
        """Approve the changes that `servers diff` showed last, of all or some tools, and return them."""
        return await run_in_store_thread(
            self._servers.pins.approve_changes, server, tools, self._record_change
        )

    async def approve_change(self, server: str, digest: str) -> bool:
        """Approve the change with this digest, which the person has seen. Return whether it still waited."""
        approved = await run_in_store_thread(
            self._servers.pins.approve_exactly, server, digest, self._record_change
        )
        if approved:
            await self._review_again(server)
        return approved

    async def accept_unstable_text(
        self, server: str, tools: "Sequence[str]", *, unstable: bool
    ) -> "Mapping[str, str]":
        """Accept any text of these tools from now on, or pin it again. Return by tool why it was not done."""
        facts: dict[str, Field] = {"unstable_text": unstable}

        def accept() -> "Mapping[str, str]":
            return self._servers.pins.accept_unstable_text(
                server, tools, unstable=unstable, note=lambda tool: self._record(server, tool, facts)
            )

        return await run_in_store_thread(accept)

    async def accept_unstable_change(self, server: str, digest: str) -> bool:
        """Accept any text of the tool whose change has this digest. Return whether that waited, and was only text."""
        pending = await run_in_store_thread(self._servers.pins.list_pending, server)
        tools = [each.tool for each in pending if each.digest == digest]
        if not tools or await self.accept_unstable_text(server, tools, unstable=True):
            return False
        await self._review_again(server)
        return True

    def _record_change(self, change: "DefinitionChange") -> None:
        facts: dict[str, Field] = {"definition_sha256": change.digest, "removed": change.after is None}
        self._record(change.server, change.tool, facts)

    def _record(self, server: str, tool: str, facts: "Mapping[str, Field]") -> None:
        work: dict[str, Field] = {"kind": "server", "name": shorten_name(f"{server}/{tool}")}
        self._audit.append("approved", new_id(), {**self._who, **work, **facts})

    async def _review_again(self, server: str) -> None:
        await run_in_store_thread(self._servers.call_checks.review_again, server)
        self._servers.catalog.forget(server)
