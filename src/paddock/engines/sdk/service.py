"""SDK methods that Paddock itself answers: vault, signals, stored output, the ledger, health.

A method checks the arguments of the call and returns a JSON value. Most methods run in a thread, because they must not
block the event loop and use nothing that belongs to it. Methods that wait for other parts of Paddock run on it.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pydantic import ValidationError

from paddock.engines.sdk.requests import options_of, reject_unknown_options
from paddock.model.base import Json, kind
from paddock.model.errors import (
    ConfigurationError,
    EngineError,
    LedgerError,
    NotASecret,
    SdkError,
    SignalError,
    VaultError,
)
from paddock.model.network import HostGrant
from paddock.model.path_privacy import hide_paths, shorten_paths
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.model.texts import explain
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.settings.schema import SdkSettings, Settings

if TYPE_CHECKING:
    from paddock.confinement.sandbox.protocol import OpenHosts
    from paddock.engines.sdk.commands import Commands
    from paddock.engines.sdk.notes import Signals
    from paddock.engines.sdk.webhooks import Webhooks
    from paddock.engines.secrets.vault import Vault
    from paddock.record.output.artifacts import Artifacts

_SCOPE = "global"
_OWN_PARAMETERS = frozenset({"request", "_request", "open_hosts"})
"""Parameters of methods that are not arguments of a program."""
_TEXT_PARAMETERS = frozenset({"name", "text", "value"})
"""Parameters of methods that take a string."""

Method = Callable[..., Json]
"""Answers a call from its arguments."""

AsyncMethod = Callable[..., Awaitable[Json]]
"""Answers a call from its request and arguments."""

ConnectedMethod = Callable[..., Awaitable[Json]]
"""Answers a call from its request, what makes connections to hosts, and its arguments."""


class SequenceRunner(Protocol):
    """Runs sequences."""

    async def run(self, request: ExecutionRequest, name: str, given: Mapping[str, Json]) -> Json:
        """Run a sequence with variables and return its result. Raises SdkError."""
        ...

    def sequences(self, workspace: Path) -> Json:
        """Return the facts of every sequence."""
        ...


class ScheduleRunner(Protocol):
    """Fires schedules."""

    async def fire(self, request: ExecutionRequest, name: str, due: str | None = None) -> Json:
        """Run the sequence of a schedule, unless it has run since `due`, and return its result. Raises SdkError."""
        ...

    def temporals(self, workspace: Path) -> Json:
        """Return the facts of every schedule."""
        ...


class SessionFacts(NamedTuple):
    """Facts of the rest of the opened Paddock; each is determined when a program asks."""

    artifacts: "Callable[[], Artifacts]"
    """Stored output."""
    servers: Callable[[], tuple[Sequence[str], Sequence[str]]]
    """Names of the configured servers, and the faults of their file. Raises ConfigurationError."""
    tier: Callable[[], Awaitable[str]]
    """The proved confinement of programs. Raises EngineError and ConfigurationError."""
    flows: Callable[[], SequenceRunner]
    """Sequences."""
    temporals: Callable[[], ScheduleRunner]
    """Schedules."""
    commands: "Callable[[Callable[[str], str | None]], Commands]"
    """Commands of the settings; they get their secrets through the argument."""
    hide: Callable[[Json], Json]
    """Returns a value without secrets."""
    owner: SdkSettings | None = None
    """Settings of the server's owner, for one of its users: the owner's webhooks get the questions of all users."""
    audit_sink: str = ""
    """Name of the sink that keeps the record instead of the ledger; empty where none does."""


class Services:
    """Answers the `SdkCall`s of one opened Paddock."""

    def __init__(self, settings: Settings, secrets: KnownSecrets, facts: SessionFacts) -> None:
        self._settings = settings
        self._secrets = secrets
        self._facts = facts
        self._async_methods: Mapping[str, AsyncMethod] = {
            "health.check": self._report_health,
            "output.query": self._query_output,
            "sequence.list": self._list_sequences,
            "sequence.run": self._run_sequence,
            "temporal.fire": self._fire_schedule,
            "temporal.list": self._list_schedules,
            "webhook.delete": self._delete_webhook,
            "webhook.deliver": self._deliver_webhook,
            "webhook.list": self._list_webhooks,
            "webhook.register": self._register_webhook,
            "webhook.test": self._test_webhook,
        }
        self._connected_methods: Mapping[str, ConnectedMethod] = {
            "notify.approval": self._notify_approval,
            "notify.send": self._send_notification,
        }
        self._methods: Mapping[str, Method] = {
            "cir.capture": self._capture_signal,
            "cir.contradictions": self._find_contradictions,
            "cir.query": self._query_signals,
            "cir.search": self._search_signals,
            "cir.stats": self._count_signals,
            "ledger.verify": self._verify_audit,
            "vault.get": self._get_secret,
            "vault.list": self._list_secrets,
            "vault.set": self._set_secret,
        }

    @cached_property
    def _vault(self) -> "Vault":
        from paddock.engines.secrets.vault import open_vault

        return open_vault(self._settings.vault, url=self._settings.cluster.url)

    @cached_property
    def _signals(self) -> "Signals":
        from paddock.engines.sdk.notes import Signals

        return Signals(self._settings.sdk.signals)

    @cached_property
    def _commands(self) -> "Commands":
        return self._facts.commands(self.find_secret)

    @cached_property
    def _webhooks(self) -> "Webhooks":
        return self._open_webhooks(self._settings.sdk)

    def _open_webhooks(self, given: SdkSettings) -> "Webhooks":
        from paddock.engines.sdk.webhooks import Webhooks

        hide, networks = self._facts.hide, given.webhook_networks
        return Webhooks(given.webhooks, networks, lambda: self._vault, self._secrets, hide)

    def webhooks_of(self, event: str) -> list[str]:
        """Return the ids of an event's webhooks. Raises ConfigurationError."""
        own = self._webhooks.list_ids(event) if self._settings.sdk.webhooks.exists() else []
        return [*own, *self._list_owners_webhooks(event)]

    def _list_owners_webhooks(self, event: str) -> list[str]:
        """Return the ids of an event's webhooks of the server's owner."""
        owner = self._facts.owner
        if event != "approval.waiting" or owner is None or not owner.webhooks.exists():
            return []
        return self._open_webhooks(owner).list_ids(event)

    def check(self, work: SdkCall) -> None:
        """Raise SdkError for a method that does not exist, or arguments of a wrong number or type."""
        method = self._find_method(work.method)
        if method is None:
            options_of(_one_object(work), work.method)
            return
        for name, value in _bind(work, method).items():
            if name == "options":
                options_of(value, work.method)
            elif name in _TEXT_PARAMETERS:
                _check_text(work.method, name, value)

    async def call(self, request: ExecutionRequest, work: SdkCall, open_hosts: "OpenHosts") -> Json:
        """Return the value of a call; `open_hosts` makes what serves the connections of a command.

        Raises SdkError for misuse, other PaddockErrors for failures.

        Texts for programs name files without their directories on this machine.
        """
        try:
            return await self._answer_call(request, work, open_hosts)
        except NotASecret as error:
            raise SdkError(f"paddock.{work.method}: {error}") from None
        except SdkError as error:
            if request.caller is None:
                raise
            raise SdkError(shorten_paths(str(error), request.workspace)) from None
        except (VaultError, SignalError, ConfigurationError) as error:
            if request.caller is None:
                raise
            raise type(error)(hide_paths(str(error), request.workspace)) from None

    async def _answer_call(self, request: ExecutionRequest, work: SdkCall, open_hosts: "OpenHosts") -> Json:
        method = self._find_method(work.method)
        if method is None:
            given = options_of(_one_object(work), work.method)
            return await self._run_command(work.method, given, request, open_hosts)
        _bind(work, method)
        if work.method in self._async_methods:
            return await method(request, *work.arguments)
        if work.method in self._connected_methods:
            return await method(request, open_hosts, *work.arguments)
        return await asyncio.to_thread(method, *work.arguments)

    def _find_method(self, name: str) -> Callable[..., Any] | None:
        """Return the function of a method; None for a command of the settings. Raises SdkError for an unknown name."""
        methods = {**self._methods, **self._async_methods, **self._connected_methods}
        found = methods.get(name)
        if found is None and all(command.name != name for command in self._settings.sdk.commands):
            raise SdkError(f"paddock.{name} does not exist; there is {', '.join(sorted(methods))}")
        return found

    async def _run_command(
        self, name: str, given: Mapping[str, Json], request: ExecutionRequest, open_hosts: "OpenHosts"
    ) -> Json:
        to_hosts = partial(open_hosts, HostGrant(rules=self._settings.network.rule))
        return await self._commands.run_command(name, given, request.workspace, to_hosts)

    async def _report_health(self, request: ExecutionRequest) -> Json:
        """Return the most important facts; faults are returned, not raised."""
        problems: list[str] = []
        tier, servers = None, None
        try:
            tier = await self._facts.tier()
        except (EngineError, ConfigurationError) as error:
            problems.append(f"sandbox: {error}")
        try:
            names, warnings = await asyncio.to_thread(self._facts.servers)
            servers = sorted(names)
            problems += [f"servers: {warning}" for warning in warnings]
        except ConfigurationError as error:
            problems.append(f"servers: {error}")
        ledger = await asyncio.to_thread(self._verify_audit)
        problems += [f"ledger: {found['file']}: {found['message']}" for found in ledger["problems"]]
        return {
            "ok": not problems,
            "problems": [hide_paths(problem, request.workspace) for problem in problems],
            "tier": tier,
            "servers": servers,
            "ledger": {name: ledger[name] for name in ("ok", "records", "last_hash")},
        }

    async def _query_output(self, request: ExecutionRequest, handle: Json, options: Json = None) -> Json:
        """Read `output.query(handle, {terms, lines, cursor, stream, context, max})`; the rules are those for people."""
        from paddock.model.artifact import OutputQuery  # its models take 7 ms to build
        from paddock.record.output.query import query

        wishes = options_of(options, "output.query")
        reject_unknown_options("output.query", wishes, ("cursor", "stream", *_QUERY_FIELDS))
        given = {_QUERY_FIELDS.get(name, name): value for name, value in wishes.items()}
        if isinstance(given.get("line_range"), list):
            # `[first, last]`: lines of standard output, or of the given stream.
            lines: list[Json] = given["line_range"]
            if len(lines) != 2:
                raise SdkError("paddock.output.query: lines must be [first, last], for example [10, 20]")
            stream = given.get("stream", "both")
            stream = "stdout" if stream == "both" else stream
            given["line_range"] = {"stream": stream, "start_line": lines[0], "end_line": lines[1]}
        try:
            asked = OutputQuery.model_validate({"artifact_handle": handle, **given})
        except ValidationError as error:
            [line] = explain(error, names=_OPTION_NAMES)
            line = _AGENT_NAME_PATTERN.sub(lambda found: _AGENT_NAMES[found[0]], line)
            raise SdkError(f"paddock.output.query: {line}") from None
        found = await asyncio.to_thread(query, self._facts.artifacts(), asked, request.workspace)
        return found.to_wire()

    async def _list_sequences(self, request: ExecutionRequest) -> Json:
        return await asyncio.to_thread(self._facts.flows().sequences, request.workspace)

    async def _run_sequence(self, request: ExecutionRequest, name: Json, options: Json = None) -> Json:
        """Read `sequence.run(name, {vars})`."""
        wishes = options_of(options, "sequence.run")
        given = options_of(wishes.pop("vars", None), "sequence.run")
        reject_unknown_options("sequence.run", wishes, ("vars",))
        return await self._facts.flows().run(request, _check_text("sequence.run", "name", name), given)

    async def _list_schedules(self, request: ExecutionRequest) -> Json:
        return await asyncio.to_thread(self._facts.temporals().temporals, request.workspace)

    async def _fire_schedule(self, request: ExecutionRequest, name: Json, options: Json = None) -> Json:
        """Read `temporal.fire(name, {due})`."""
        wishes = options_of(options, "temporal.fire")
        due = wishes.pop("due", None)
        reject_unknown_options("temporal.fire", wishes, ("due",))
        moment = None if due is None else _check_text("temporal.fire", "due", due)
        return await self._facts.temporals().fire(request, _check_text("temporal.fire", "name", name), moment)

    async def _register_webhook(
        self, _request: ExecutionRequest, event: Json, url: Json, secret: Json
    ) -> Json:
        """Read `webhook.register(event, url, secret)`."""
        if isinstance(secret, str):
            self._secrets.learn(secret)
        return await asyncio.to_thread(self._webhooks.register_webhook, event, url, secret)

    async def _list_webhooks(self, _request: ExecutionRequest) -> Json:
        return await asyncio.to_thread(self._webhooks.list_webhooks)

    async def _delete_webhook(self, _request: ExecutionRequest, name: Json) -> Json:
        return await asyncio.to_thread(self._webhooks.delete_webhook, name)

    async def _test_webhook(self, _request: ExecutionRequest, name: Json) -> Json:
        return await self._webhooks.deliver_event(_check_text("webhook.test", "id", name), "webhook.test", {})

    async def _deliver_webhook(self, request: ExecutionRequest, name: str, event: str, data: Json) -> Json:
        if request.caller is not None:
            raise SdkError("paddock.webhook.deliver is not available to programs; use webhook.test")
        owner = self._facts.owner
        is_owners = owner is not None and name in await asyncio.to_thread(self._list_owners_webhooks, event)
        webhooks = self._open_webhooks(owner) if owner is not None and is_owners else self._webhooks
        return await webhooks.deliver_event(name, event, data)

    async def _send_notification(
        self, request: ExecutionRequest, open_hosts: "OpenHosts", title: Json, body: Json
    ) -> Json:
        """Read `notify.send(title, body)`."""
        return await self._notify(request, open_hosts, title, body, self._settings.sdk.notify)

    async def _notify_approval(
        self, request: ExecutionRequest, open_hosts: "OpenHosts", title: str, body: str
    ) -> Json:
        if request.caller is not None:
            raise SdkError("paddock.notify.approval is not available to programs; use notify.send")
        return await self._notify(request, open_hosts, title, body, self._settings.approvals.notify)

    async def _notify(
        self,
        request: ExecutionRequest,
        open_hosts: "OpenHosts",
        title: Json,
        body: Json,
        channels: tuple[str, ...],
    ) -> Json:
        """Send a message through the first of some channels that is available."""
        from paddock.engines.sdk.notify import Tell, send_message

        names = {command.name for command in self._settings.sdk.commands}

        async def run(name: str, message: dict[str, Json]) -> Json:
            await self._run_command(name, message, request, open_hosts)
            return True

        async def webhooks(message: dict[str, Json]) -> Json:
            found = self.webhooks_of("notification")
            for webhook in found:
                await self._webhooks.deliver_event(webhook, "notification", message)
            return len(found) or None

        def find_channel(name: str) -> Tell | None:
            return webhooks if name == "webhook" else partial(run, name) if name in names else None

        title, body = self._facts.hide(title), self._facts.hide(body)
        return await send_message(title, body, channels, os.environ, find_channel)

    def _capture_signal(self, body: Json, options: Json = None) -> Json:
        text, wishes = _check_text("cir.capture", "body", body), options_of(options, "cir.capture")
        return self._signals.capture_signal(self._facts.hide(text), self._facts.hide(wishes))

    def _find_contradictions(self) -> Json:
        return self._signals.find_contradictions()

    def _count_signals(self) -> Json:
        return self._signals.count_signals()

    def _query_signals(self, options: Json = None) -> Json:
        return self._signals.query_signals(options_of(options, "cir.query"))

    def _search_signals(self, text: Json, options: Json = None) -> Json:
        return self._signals.search_signals(
            _check_text("cir.search", "text", text), options_of(options, "cir.search")
        )

    def _verify_audit(self) -> Json:
        if sink := self._facts.audit_sink:
            raise LedgerError(
                f"paddock.ledger.verify checks Paddock's own ledger; this session records in {sink}"
            )
        from paddock.record.ledger.verify import verify

        return verify(self._settings.audit.directory).model_dump(mode="json")

    def _get_secret(self, name: Json, options: Json = None) -> Json:
        value = self._vault.get(_read_scope("vault.get", options), _check_text("vault.get", "name", name))
        if value is not None:
            self._secrets.learn(value)
        return value

    def find_secret(self, name: str) -> str | None:
        """Return a secret that Paddock itself uses for a program; it is redacted, too. None if it cannot be read."""
        try:
            value = self._vault.get(_SCOPE, name)
        except VaultError:
            return None
        if value is not None:
            self._secrets.learn(value)
        return value

    def _set_secret(self, name: Json, value: Json, options: Json = None) -> Json:
        secret = _check_text("vault.set", "value", value)
        self._secrets.learn(secret)
        self._vault.set(_read_scope("vault.set", options), _check_text("vault.set", "name", name), secret)
        return None

    def _list_secrets(self, options: Json = None) -> Json:
        return self._vault.names(_read_scope("vault.list", options))


_QUERY_FIELDS = {
    "terms": "query_terms",
    "lines": "line_range",
    "context": "context_lines",
    "max": "max_excerpts",
}
_OPTION_NAMES = {
    "query_terms": "terms",
    "line_range": "lines",
    "context_lines": "context",
    "max_excerpts": "max",
    "artifact_handle": "handle",
}
"""Names of the options in a query, and the reverse mapping."""
_AGENT_NAMES = {
    "queryTerms": "`terms`",
    "lineRange": "`lines`",
    "endLine": "the last line",
    "startLine": "the first",
}
"""Other names that agents use for these options, with the right ones."""
_AGENT_NAME_PATTERN = re.compile("|".join(_AGENT_NAMES))


def _one_object(work: SdkCall) -> Json:
    if len(work.arguments) > 1:
        raise SdkError(f"paddock.{work.method} takes one object with its arguments")
    return work.arguments[0] if work.arguments else None


def _bind(work: SdkCall, method: Callable[..., object]) -> dict[str, Json]:
    """Return the arguments of a call by the names of the method's parameters. Raises SdkError for a wrong number."""
    named = signature(method).parameters
    own = Signature([each for name, each in named.items() if name not in _OWN_PARAMETERS])
    try:
        return dict(own.bind(*work.arguments).arguments)
    except TypeError:
        # The parameters in TypeScript notation.
        listed = [name + ("" if each.default is each.empty else "?") for name, each in own.parameters.items()]
        called = f"paddock.{work.method}({', '.join(listed)})"
        raise SdkError(f"{called}: wrong number of arguments ({len(work.arguments)})") from None


def _check_text(method: str, what: str, value: Json) -> str:
    if not isinstance(value, str):
        raise SdkError(f"paddock.{method}: {what} must be a string, not {kind(value)}")
    return value


def _read_scope(method: str, options: Json) -> str:
    wishes = options_of(options, method)
    scope = wishes.pop("scope", _SCOPE)
    reject_unknown_options(method, wishes, ("scope",))
    return _check_text(method, "scope", scope)
