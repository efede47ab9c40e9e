"""What may be configured, as values. The field descriptions are the reference of `paddock.toml`."""

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_config_path, user_state_path
from pydantic import AfterValidator, Field

from paddock.model.base import PositiveInt, Value
from paddock.model.json_meter import MAX_VALUES
from paddock.model.limits import KIB, MIB, Calls, Grants
from paddock.model.program import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, RUNTIMES, Access, Network, Runtime
from paddock.model.sandbox import Tier
from paddock.settings.commands import SdkCommand
from paddock.settings.profiles import LimitSettings
from paddock.settings.rules import ApprovalSettings, PolicySettings


def processors() -> int:
    """Return the number of processors that this process may use, at most 1024."""
    return min(len(os.sched_getaffinity(0)), 1024)


Count = Annotated[int, Field(ge=0)]


class GrantSettings(Grants):
    """`[grants]`: the most that any request may be granted."""

    jit: bool = False
    """Whether a request may ask for just-in-time compilation (`--jit`): faster, more attack surface."""
    servers: tuple[str, ...] = ("*",)
    """Upstream servers that programs may call: names, or `*` for every configured one."""
    calls: Calls = "run"
    """Which tools programs may call: any (`run`), those their servers mark as read-only, others being refused
    (`read_only`) or answered with a stub and listed (`dry_run`). A request may ask for less."""


Protection = Literal["restore", "refuse"]
"""What becomes of protected paths of a writable workspace where mounts cannot keep them from being changed."""


class SandboxSettings(Value):
    """`[sandbox]`: how programs are confined, and what confinement is the least."""

    minimum_tier: Tier = "landlock"
    """Weakest confinement that a program may run under; without it the program does not start."""
    job_user: str = ""
    """User, by name or number, that processes become when Paddock runs as root. When empty they become user 65531, whom
    no system gives to anybody; in the tier `namespaces` those that get a workspace stay root without any capability.
    `root` keeps these root in the tier `landlock` too, where they can then change the mode of every file of root's.
    Where they cannot become that user, each result says so under `sandbox`, and `paddock doctor` does."""
    spares: Count = 1
    """Confined places kept ready for the next process of the same grants, from the second one on; each is a few waiting
    processes."""
    protected_paths: Protection = "restore"
    """Where mounts cannot keep `.git/hooks`, `.mcp.json` and the like in a writable workspace from being changed (in
    the tier `landlock`, and where they are links): put them back after the run and report it (`restore`), or do not
    run (`refuse`). Those that do not exist yet are put back in every tier."""


class AuditSettings(Value):
    """`[audit]`: where the ledger is and how hard it is written."""

    directory: Path = Field(default_factory=lambda: user_state_path("paddock") / "audit")
    """Directory of the ledger, by default `paddock/audit` below the user's state directory."""
    required: Literal["effects", "all"] = "all"
    """What does not run without its record: everything (`all`), or everything that can have effects (`effects`), so
    that a pure computation may run although the ledger cannot be written."""
    sync: Literal["batch", "always"] = "batch"
    """Whether records reach the disk one by one before work starts (`always`) or together (`batch`)."""


class ArtifactSettings(Value):
    """`[artifacts]`: where the output of programs is kept, how much of it and for how long."""

    enabled: bool = True
    """Whether output is kept at all."""
    directory: Path = Field(default_factory=lambda: user_state_path("paddock") / "artifacts")
    """Directory of the artifacts, by default `paddock/artifacts` below the user's state directory."""
    url: str | None = None
    """Bucket to use instead of the directory: `s3://`, `gs://` or `az://`; credentials come from the environment."""
    ttl_hours: Annotated[int, Field(gt=0, le=1_000_000)] = 24
    """Hours after which an artifact can no longer be read, and is deleted."""
    max_bytes: Annotated[int, Field(ge=1024)] = 10 * MIB
    """Bytes of output, both streams together, of one execution; with more, none of it is kept."""
    max_read_bytes: Annotated[int, Field(ge=1024)] = 50 * MIB
    """Bytes that reading one artifact may decompress to."""
    cross_workspace: bool = False
    """Whether artifacts of other workspaces may be read."""


class RedactionPattern(Value):
    """One `[[redaction.patterns]]`. What it matches, within a line, is replaced by `[REDACTED:name]`."""

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]
    """Regular expression in the syntax of RE2, which takes linear time on any text."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9 _.-]{1,40}$")] = "custom"
    """What stands in place of a secret."""
    flags: Annotated[str, Field(pattern=r"^[imsU]{0,4}$")] = ""
    """Flags of RE2: `i` ignores case."""


class RedactionSettings(Value):
    """`[redaction]`: what is removed from output, results, console lines, errors and answers."""

    enabled: bool = True
    """Whether rules and patterns are applied. Secrets of the vault that a program has read are always removed."""
    include_defaults: bool = True
    """Whether the built-in rules are applied: keys and tokens of known shapes, named values that look like secrets,
    passwords in addresses, private keys."""
    patterns: tuple[RedactionPattern, ...] = ()
    """Patterns of all files together; one that RE2 does not take is skipped with a warning."""


def _check_network(text: str) -> str:
    ip_network(text)
    return text


class SdkSettings(Value):
    """`[sdk]`: which methods of `paddock.*` programs may call, and for how long."""

    script: tuple[str, ...] = ("*",)
    """Methods for scripts that people run: names, globs such as `vault.*`, or `*`."""
    execute: tuple[str, ...] = (
        *("cir.*", "compute", "exec", "health.check", "ledger.verify", "output.query", "script.run"),
        *("sequence.list", "temporal.list", "tool"),
    )
    """Methods for programs that agents send; none of these reads a secret or reaches out."""
    call_timeout_ms: PositiveInt = 30_000
    """Most milliseconds that one call may take."""
    long_call_timeout_ms: PositiveInt = 600_000
    """Most milliseconds of `sequence.run` and `temporal.fire`."""
    commands: tuple[SdkCommand, ...] = ()
    """Commands of this machine that programs may call as functions, where their profile is granted the name.
    A workspace may not set them."""
    signals: Path = Field(default_factory=lambda: user_state_path("paddock") / "signals.db")
    """Database of `paddock.cir`, by default `paddock/signals.db` below the user's state directory."""
    webhooks: Path = Field(default_factory=lambda: user_state_path("paddock") / "webhooks.json")
    """File of registered webhooks, by default `paddock/webhooks.json` below the user's state directory."""
    webhook_networks: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ()
    """Networks that webhooks may reach besides public addresses, for instance `10.1.0.0/16`."""
    notify: tuple[str, ...] = ("desktop", "webhook")
    """Where `notify.send` sends to, the first that there is: `desktop`, `webhook`, or the name of one of `commands`
    that takes `title` and `body`."""
    temporals: Path = Field(default_factory=lambda: user_state_path("paddock") / "temporals")
    """Directory for when schedules last ran, by default `paddock/temporals` below the user's state directory."""


class VaultSettings(Value):
    """`[vault]`: where secrets are kept."""

    backend: Literal["auto", "keyring", "file"] = "auto"
    """The keyring of the operating system, an encrypted file, or the keyring where there is one (`auto`)."""
    directory: Path = Field(default_factory=lambda: user_state_path("paddock") / "vault")
    """Directory of the encrypted file and its key, by default `paddock/vault` below the user's state directory."""


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("this is an address or a path, and holds a NUL character")
    return text


class ServerSettings(Value):
    """`[servers]`: how upstream MCP servers are run."""

    config: Path | None = None
    """Servers file to read instead of `.paddock/servers.json` and `.mcp.json` of the workspace.

    Keep it outside of workspaces that programs may write to: it names commands, and a program that could change it does
    not start, unless it is where such files are protected, as in `.vscode`.
    """
    state: Path = Field(default_factory=lambda: user_state_path("paddock") / "servers")
    """Directory for what is remembered of servers: pinned tool definitions, types of results."""
    registry: Path = Field(default_factory=lambda: user_state_path("paddock") / "servers" / "registry.json")
    """List of servers that can be had, in the format of the official registry; without the file there are none."""
    registry_source: Annotated[str, AfterValidator(_without_nul)] = ""
    """Where `paddock servers refresh` takes that list from: the `https://` address of a registry, or a file, outside of
    workspaces that programs may write to. Nothing is fetched without it, nor at any other time."""
    trust: Path = Field(default_factory=lambda: user_config_path("paddock") / "trusted-servers.json")
    """JSON array of trusted servers: `npm:NAME`, `pypi:NAME`, `remote:NAME`, each with `@VERSION` to allow one version
    alone, and `npm:@SCOPE/*`. A bare name is trusted if only one source has it. Without the file nothing is trusted."""
    questions: tuple[str, ...] = ()
    """Servers (globs over names) that may have a person asked in the midst of a call. The person sees the question and
    the answer that the form holds by itself, and agrees or not; a program never answers."""
    semantic_search: Literal["auto", "on", "off"] = "auto"
    """Whether a search for tools ranks them by meaning, too, with a model that runs on this machine: `auto` does where
    the extra `paddock[semantic]` is installed, `on` reports an error where it is not, `off` ranks by words alone."""
    max_live: PositiveInt = 20
    """Most servers that run at a time; the one idle for longest makes room."""
    idle_timeout_ms: PositiveInt = 300_000
    """A server not called for so long is shut down, in milliseconds."""
    answer_values: PositiveInt = MAX_VALUES
    """Maximum number of JSON values in one message of a server. Each may take up to 200 bytes of Paddock's memory."""
    call_timeout_ms: PositiveInt = 600_000
    """Most milliseconds a single call may take, whatever the server's own `timeoutMs` (60 000) says."""


def _expand_path(path: Path) -> Path:
    whole = path.expanduser()
    if not whole.is_absolute():
        raise ValueError("this is a path from the root, or from the home with ~/")
    return whole


class Repository(Value):
    """One `[[mcp.repos]]`: a workspace that `repoId` of `sdl.runtime.execute` may name, besides the one that is served.

    Programs there are held to the settings of that workspace. A workspace may not register any.
    """

    repo_id: Annotated[str, Field(min_length=1, max_length=128)]
    """Its name; that of the directory for the workspace that is served."""
    root_path: Annotated[Path, AfterValidator(_expand_path)]
    """Its directory, from the root or from the home (`~/`)."""


class McpSettings(Value):
    """`[mcp]`: the MCP server, `paddock serve mcp`."""

    answer_characters: PositiveInt = 40_000
    """Most characters of one result, as text and as data; what is more is cut and said to be cut."""
    repos: tuple[Repository, ...] = ()
    """Workspaces that `repoId` may name, of all files together."""
    shutdown_grace_ms: Count = 5_000
    """Maximum time that running calls have to finish after SIGTERM or Ctrl-C, in milliseconds. Calls that run longer
    end as `cancelled`, and their clients are answered."""


class GuestSettings(Value):
    """`[guest]`: the pool of guest workers."""

    max_workers: PositiveInt = 8
    """Most programs that run at a time; further ones wait."""
    spare_workers: Count = 4
    """Workers kept ready for the next program."""


class PythonSettings(Value):
    """`[runtimes.python]`: programs in Python."""

    environment: Path | None = None
    """Directory of an environment whose interpreter and packages programs use, made by venv, uv, virtualenv or conda.
    Programs read all of it and change nothing of it."""


class RuntimeSettings(Value):
    """`[runtimes]`: programs in language runtimes (`paddock exec`), and the most that they may be granted."""

    enabled: bool = True
    """Whether such programs run at all."""
    allowed: tuple[Runtime, ...] = RUNTIMES
    """Runtimes that may be used."""
    executables: tuple[str, ...] = ()
    """Names of executables that may run programs; empty allows all that are compatible with the runtime."""
    timeout_ms: Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS)] = 30_000
    """Wall time of a program that asks for none, compile step included, and the most it may ask for."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of a program that asks for none, and the most it may ask for."""
    stdout_bytes: Annotated[int, Field(ge=1024)] = MIB
    """Bytes of standard output that an answer is made of, half from its start and half from its end."""
    stderr_bytes: Annotated[int, Field(ge=1024)] = 256 * KIB
    """Bytes of standard error that an answer is made of."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's environment that programs get; apart from these, those that a runtime cannot do
    without."""
    access: Access = "read-only"
    """Most that a program may do with the workspace: nothing (`none`), read it, or write to it too."""
    network: Network = "none"
    """Most that a program may do with the network: nothing (`none`), or everything (`full`)."""
    max_jobs: Annotated[int, Field(ge=1, le=1024)] = Field(default_factory=processors)
    """Maximum number of programs that run at a time, by default the number of processors."""
    max_waiting: Count = 1000
    """Maximum number of programs that wait for their turn. One more is `unavailable`: nothing of it started, and it may
    be tried again."""
    max_wait_ms: PositiveInt = 3_600_000
    """Longest wait for a turn, in milliseconds. A program that has waited so long is `unavailable`, likewise."""
    workspace_environment: bool = False
    """Whether Python programs use the environment of their workspace: the activated one (`VIRTUAL_ENV`), else `.venv`.
    In the tier `namespaces` a program that may write to the workspace does not change it; in the tier `landlock` such a
    program does not use it."""
    python: PythonSettings = Field(default_factory=PythonSettings)
    """Programs in Python."""
    cache_bytes: Count = 512 * MIB
    """Bytes of compiled programs kept for the next run of the same source; with 0 nothing is kept."""


class ToolSettings(Value):
    """`[tools]`: script tools (`paddock tool`), and the most that they may be granted."""

    enabled: bool = True
    """Whether script tools run at all."""
    folders: tuple[str, ...] = ()
    """Further folders with tool directories, or with prompts that have some."""
    timeout_ms: PositiveInt = 30_000
    """Wall time of a tool that asks for none, in milliseconds."""
    max_timeout_ms: PositiveInt = 300_000
    """Longest wall time of a tool; one that asks for more gets this."""
    memory_bytes: PositiveInt = 1024 * MIB
    """Resident memory of a tool and all it starts."""
    output_bytes: Annotated[int, Field(ge=1024)] = 10 * MIB
    """Bytes that a tool may write to standard output, and to standard error."""
    strict_nulls: bool = False
    """Whether null is checked against the type of an input like any other value; else it stands for any type."""
    environment: tuple[str, ...] = ()
    """Variables of Paddock's environment that `${NAME}` in a tool's `env` may stand for, besides the harmless ones."""
    access: Access = "read-only"
    """Most that a tool may declare for the workspace: nothing (`none`), read it, or write to it too."""
    network: Network = "none"
    """Most that a tool may declare for the network: nothing (`none`), or everything (`full`)."""
    max_jobs: PositiveInt = 8
    """Tools that run at a time; further ones wait."""


class TelemetrySettings(Value):
    """`[telemetry]`: traces and metrics, which take `pip install 'paddock[telemetry]'`; no workspace may set them."""

    traces: Literal["none", "otlp", "console"] = "none"
    """Where spans of requests go: nowhere (`none`), to a collector by OTLP over HTTP (`otlp`), or to standard error
    (`console`)."""
    endpoint: Annotated[str, Field(pattern=r"^(https?://[^\s@]+)?$")] = ""
    """Address of the collector, without `/v1/traces`; when empty `OTEL_EXPORTER_OTLP_ENDPOINT`, else
    `http://localhost:4318`. Credentials belong into `OTEL_EXPORTER_OTLP_HEADERS`."""
    metrics: bool = False
    """Whether `paddock serve mcp --http` answers `/metrics` to those who hold the token."""


LogLevel = Literal["error", "warning", "info", "debug"]


class LogSettings(Value):
    """`[log]`: what `paddock serve` writes to standard error; no workspace may set it."""

    format: Literal["text", "json"] = "text"
    """Lines for people (`text`), or one JSON object a line (`json`)."""
    level: LogLevel = "warning"
    """Least level that is written, unless `--log-level` says another; at `info` one line for each request."""


class Settings(Value):
    """Everything that may be configured, merged from three files, the environment and flags."""

    limits: LimitSettings = Field(default_factory=LimitSettings)
    """Ceilings of guest programs."""
    grants: GrantSettings = Field(default_factory=GrantSettings)
    """The most that any request may be granted."""
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    """Confinement."""
    audit: AuditSettings = Field(default_factory=AuditSettings)
    """The ledger."""
    artifacts: ArtifactSettings = Field(default_factory=ArtifactSettings)
    """Stored output."""
    redaction: RedactionSettings = Field(default_factory=RedactionSettings)
    """Secrets in output."""
    sdk: SdkSettings = Field(default_factory=SdkSettings)
    """What programs may ask of Paddock itself."""
    vault: VaultSettings = Field(default_factory=VaultSettings)
    """Secrets."""
    servers: ServerSettings = Field(default_factory=ServerSettings)
    """Upstream MCP servers."""
    mcp: McpSettings = Field(default_factory=McpSettings)
    """The MCP server."""
    guest: GuestSettings = Field(default_factory=GuestSettings)
    """Guest workers."""
    runtimes: RuntimeSettings = Field(default_factory=RuntimeSettings)
    """Programs in language runtimes."""
    tools: ToolSettings = Field(default_factory=ToolSettings)
    """Script tools."""
    policy: PolicySettings = Field(default_factory=PolicySettings)
    """Rules over requests."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings)
    """Asking a person."""
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    """Traces and metrics."""
    log: LogSettings = Field(default_factory=LogSettings)
    """Log lines."""
