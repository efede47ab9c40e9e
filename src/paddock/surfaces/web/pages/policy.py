"""`/policy`: try a request, and read what an agent may do. Nothing runs, and no server starts."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddock.engines.servers.methods import METHODS
from paddock.gate.policy_trial import HostTrial, PathTrial, PolicyTrials, Trial, find_hidden, try_path
from paddock.gate.server_facts import check_known_call
from paddock.model.errors import ConfigurationError
from paddock.model.languages import read_language
from paddock.model.limits import LimitOverrides
from paddock.model.network import HTTPS_PORT, NETWORKS, HttpRequest
from paddock.model.program import ACCESSES
from paddock.model.request import (
    Caller,
    ExecutionRequest,
    GuestRun,
    RuntimeRun,
    SdkCall,
    ServerCall,
    ToolRun,
    Work,
)
from paddock.model.texts import FieldFault, list_faults
from paddock.policy.decisions.sentences import describe_policy
from paddock.policy.settings.schema import Settings
from paddock.policy.settings.serve import ServeToken
from paddock.surfaces.tenants.narrowing import narrow_settings
from paddock.surfaces.tenants.token_file import list_known_tokens
from paddock.surfaces.web.render import render, show_visible
from paddock.surfaces.web.request import find_viewer
from paddock.surfaces.web.viewer import Viewer

_KINDS = {
    "runtime": "Program",
    "guest": "JavaScript",
    "server": "Tool of a server",
    "tool": "Script tool",
    "sdk": "Method of the SDK",
    "host": "Host",
    "path": "File",
}
"""What can be tried, with its name for people."""
_SURFACES = {"mcp": "an agent, by MCP", "http": "a client of the HTTP API", "cli": "the command line"}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_MAX_HIDDEN = 50


class Tried(NamedTuple):
    """What a person tried, and the answers."""

    trial: Trial | None = None
    host: HostTrial | None = None
    path: PathTrial | None = None
    hidden: tuple[str, ...] = ()
    """Files that the program could not read."""
    more_hidden: int = 0
    call: str = ""
    """Why the server's own tool list refuses the call; empty if nothing is known against it."""
    fault: str = ""
    """Why the form cannot be tried."""

    @property
    def verdict(self) -> str:
        """`allowed`, `ask` or `denied`; empty without an answer."""
        if self._is_refused:
            return "denied"
        if self.path is not None and (self.path.hidden_by or self.path.leads_out):
            return "denied"
        if self.host is not None and self.host.decision.effect != "allow":
            return {"ask": "ask", "deny": "denied"}[self.host.decision.effect]
        if self.trial is None:
            return ""
        return "ask" if self.trial.decision.asks else "allowed"

    @property
    def rule(self) -> str:
        """The name of the rule or the key of the setting that decides; `default` if none objects."""
        if self.path is not None and self.path.hidden_by:
            return "workspace.hide"
        if self.host is not None and not self._is_refused:
            return self.host.decision.rule
        return self.trial.decision.rule if self.trial is not None else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is refused, or a person is asked."""
        given = self.trial.decision.reasons if self.trial is not None else ()
        told = self.host.decision.reason if self.host is not None and not self._is_refused else ""
        return (*given, told) if told else given

    @property
    def _is_refused(self) -> bool:
        return self.trial is not None and not self.trial.decision.allowed and not self.trial.decision.asks


async def show_policy(request: Request) -> Response:
    """Show the form, the answer to it, and the policy in sentences."""
    viewer = find_viewer(request)
    # The form shows what was tried, and nothing invisible.
    form = {name: show_visible(value) for name, value in request.query_params.items()}
    kind = form.get("kind", "runtime")
    kind = kind if kind in _KINDS else "runtime"
    tokens = list_known_tokens(viewer.settings) if viewer.is_owner else ()
    tried, settings = Tried(), viewer.settings
    try:
        settings = _find_settings(viewer, tokens, form.get("actor", ""))
        if "try" in form:
            tried = await _try(viewer, settings, kind, form)
    except ValidationError as error:
        tried = Tried(fault="; ".join(map(_explain_fault, list_faults(error))))
    except (ValueError, ConfigurationError, OSError) as error:
        tried = Tried(
            fault=str(error) if viewer.is_owner or isinstance(error, ValueError) else "It cannot be tried."
        )
    sources = viewer.sources
    return render(
        request,
        "policy.html",
        kind=kind,
        kinds=_KINDS,
        form=form,
        tried=tried,
        tokens=tokens,
        languages=settings.runtimes.languages,
        accesses=ACCESSES,
        networks=NETWORKS,
        surfaces=_SURFACES,
        methods=_METHODS,
        servers=sorted(viewer.opened.servers.config.servers) if viewer.is_owner else (),
        topics=describe_policy(settings, with_paths=viewer.is_owner),
        sources=sources,
    )


def _explain_fault(fault: FieldFault) -> str:
    return ": ".join(filter(None, (".".join(map(str, fault.path)), fault.text)))


def _find_settings(viewer: Viewer, tokens: tuple[ServeToken, ...], actor: str) -> Settings:
    """Return the settings of a user of the server, or those of the viewer. Raises ValueError and ConfigurationError."""
    if not actor or not viewer.is_owner:
        return viewer.settings
    for token in tokens:
        if token.name == actor:
            return narrow_settings(viewer.settings, token)
    raise ValueError(f"there is no token {actor[:100]!r}")


async def _try(viewer: Viewer, settings: Settings, kind: str, form: Mapping[str, str]) -> Tried:
    """Return the answers to a form. Raises ValueError, ConfigurationError and OSError."""
    trials = PolicyTrials(settings, viewer.sources)
    asked = _build_request(viewer, kind, form)
    trial = trials.try_request(asked)
    work = trial.request.work
    match kind:
        case "host":
            host = trials.try_host(form.get("host", ""), _read_port(form), _read_http_request(form))
            return Tried(trial, host=host)
        case "path":
            path = await asyncio.to_thread(try_path, viewer.workspace, form.get("path", ""), settings)
            return Tried(trial, path=path)
        case "server":
            assert isinstance(work, ServerCall)
            servers = viewer.opened.servers
            call = (
                ""
                if work.is_method
                else await check_known_call(servers, work.server, work.tool, work.arguments)
            )
            return Tried(
                trial, call=call if viewer.is_owner or not call else "The server's tool list refuses it."
            )
        case "runtime":
            hidden = await asyncio.to_thread(find_hidden, trial.request, settings)
            return Tried(
                trial, hidden=tuple(hidden[:_MAX_HIDDEN]), more_hidden=max(0, len(hidden) - _MAX_HIDDEN)
            )
        case _:
            return Tried(trial)


def _build_request(viewer: Viewer, kind: str, form: Mapping[str, str]) -> ExecutionRequest:
    """Return the request that a form describes. Raises ValueError."""
    work = _build_work(kind, form)
    method = form.get("method", "") if kind == "sdk" else ""
    timeout = form.get("timeout_ms", "") if kind == "runtime" else ""
    return ExecutionRequest(
        actor=viewer.actor or viewer.name,
        surface=form.get("surface", "mcp") if form.get("surface", "mcp") in _SURFACES else "mcp",
        workspace=viewer.workspace,
        work=work,
        caller=Caller(method=method, profile="execute") if method else None,
        jit=kind == "guest" and "jit" in form,
        limits=LimitOverrides(timeout_ms=_read_number(timeout, "the time limit") if timeout else None),
    )


def _build_work(kind: str, form: Mapping[str, str]) -> Work:
    """Return the work that a form describes. Raises ValueError."""
    match kind:
        case "guest":
            return GuestRun(source="")
        case "server":
            server, tool = _require(form, "server"), _require(form, "tool")
            arguments = _read_arguments(form.get("arguments", ""))
            return ServerCall(server=server, tool=tool, arguments=arguments, is_method=tool in METHODS)
        case "tool":
            fields = _read_network(form)
            return ToolRun.model_validate(
                {"tool": _require(form, "tool").lower(), "access": form.get("access") or "none", **fields}
            )
        case "sdk":
            return SdkCall(method=_require(form, "method"))
        case "host":
            return _build_program({**form, "network": _require(form, "host"), "access": "none"})
        case "path":
            return _build_program({**form, "network": "none"})
        case _:
            return _build_program(form)


def _build_program(form: Mapping[str, str]) -> RuntimeRun:
    """Return a program without text. Raises ValueError."""
    fields: dict[str, Any] = {
        "runtime": read_language(form.get("runtime") or "python"),
        "code": "",
        **_read_network(form),
    }
    fields |= {name: form[name] for name in ("executable", "cwd", "access") if form.get(name)}
    return RuntimeRun.model_validate(fields)


def _read_network(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the network of a form: a word, or names of hosts."""
    network = form.get("network", "").strip() or "none"
    if network in NETWORKS:
        hosts = form.get("hosts", "").replace(",", " ").split()
        return {"network": hosts if network == "hosts" and hosts else network}
    return {"network": [network]}


def _read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call. Raises ValueError."""
    try:
        values: object = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("the arguments are a JSON object")  # noqa: TRY004 - shown to the person
    return cast("dict[str, Any]", values)


def _read_http_request(form: Mapping[str, str]) -> HttpRequest | None:
    """Return the request of HTTP that a form describes; None for a connection alone."""
    target = form.get("path", "").strip()
    if not target:
        return None
    return HttpRequest(form.get("http_method") or "GET", target)


def _read_port(form: Mapping[str, str]) -> int:
    port = _read_number(form["port"], "the port") if form.get("port") else HTTPS_PORT
    if not 1 <= port <= 65_535:
        raise ValueError("a port is 1 to 65535")
    return port


def _read_number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise ValueError(f"{what} is a whole number")
    return int(text)


def _require(form: Mapping[str, str], name: str) -> str:
    if value := form.get(name, "").strip():
        return value
    raise ValueError(f"the field `{name}` is empty")


ROUTES = (Route("/policy", show_policy),)
