"""The settings, as values. The field descriptions are the reference of `paddock.toml`."""

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from platformdirs import user_config_path, user_state_path
from pydantic import AfterValidator, Field

from paddock.model.base import Value
from paddock.model.directories import MAX_DIRECTORIES, GrantedDirectory
from paddock.model.json_meter import MAX_VALUES
from paddock.model.limits import KIB, MIB, SMALLER, Calls, Grants, Maximum
from paddock.model.network import NETWORKS, Network, NetworkLimits, NetworkRule
from paddock.model.program import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, RUNTIMES, Access
from paddock.model.request import Check
from paddock.model.sandbox import Tier
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.commands import SdkCommand
from paddock.policy.settings.flow import FlowSettings
from paddock.policy.settings.hiding import DEFAULT_HIDDEN, FileRules, ProtectedRules
from paddock.policy.settings.narrowing import (
    AMONG,
    COVERED,
    FEWER,
    FREE,
    SAME,
    SUPERSET,
    AllowedNames,
    Count,
    Mark,
    OwnersPath,
    Permission,
    Safeguard,
    stricter,
)
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.packages import PackageSettings
from paddock.policy.settings.profiles import LimitSettings
from paddock.policy.settings.rules import ApprovalSettings, PolicySettings
from paddock.policy.settings.serve import ServeSettings, count_usable_processors
from paddock.policy.settings.ui import UiSettings

if TYPE_CHECKING:
    from paddock.model.request import Profile
    from paddock.policy.settings.recipes import Recipe


_STRICTER_ACCESS = stricter(*reversed(get_args(Access)))
_STRICTER_NETWORK = stricter(*reversed(NETWORKS))


class GrantSettings(Grants):
    """`[grants]`: the maximum that any request may be granted."""

    jit: Permission = False
    """Whether a request may ask for just-in-time compilation (`--jit`). It is faster, but adds attack surface."""
    servers: AllowedNames = ("*",)
    """Upstream servers that programs may call: a list of names, or `*` for every configured server."""
    calls: Annotated[Calls, stricter("run", "read_only", "dry_run")] = "run"
    """Which tools programs may call: all of them (`run`), only those that their server marks as read-only
    (`read_only`), or only those, with a stub instead of every other call (`dry_run`). A request may ask for less."""


Protection = Literal["restore", "refuse"]
"""How protected paths of a writable workspace are kept if mounts cannot protect them."""


class SandboxSettings(Value):
    """`[sandbox]`: how programs are confined, and the weakest acceptable confinement."""

    minimum_tier: Annotated[Tier, stricter("unconfined", "landlock", "namespaces")] = "landlock"
    """Weakest confinement under which a program may run. If the machine offers less, the program does not start."""
    require: Annotated[tuple[Literal["landlock"], ...], SUPERSET] = ()
    """Mechanisms without which nothing runs. Without Landlock the tier `namespaces` confines files by mounts alone, and
    JavaScript runs in an empty root instead."""
    job_user: Annotated[str, SAME, Mark.OWNERS_ONLY] = ""
    """User, by name or number, that processes run as when Paddock runs as root. Empty means user 65531, which no system
    assigns. In the tier `namespaces`, processes with a workspace then stay root, without capabilities. `root` keeps
    them root in the tier `landlock`, too; there they can change the mode of every file that root owns, unless
    `paddock doctor` shows supervised system calls. If processes cannot change to the user, each result says so under
    `sandbox`, and so does `paddock doctor`."""
    spares: Count = 1
    """Number of sandboxes started ahead for each set of grants, once the same grants were used twice. Each one costs
    a few idle processes."""
    protected_paths: Annotated[Protection, stricter("restore", "refuse")] = "restore"
    """How protected paths such as `.git/hooks` and `.mcp.json` are kept in a writable workspace where mounts cannot
    keep them (in the tier `landlock`, for links, and for what `**/` finds in folders). `restore` puts them back after
    the run and reports it; `refuse` does not run the program. Paths that do not exist yet are removed after the run in
    every tier."""
    protected: Annotated[ProtectedRules, Mark.JOINED] = ()
    """Further protected paths, relative to the workspace, of all files together. `ci/**` and `ci` mean a folder with
    all in it. `*`, `?` and `[...]` match within a name. `**/.envrc` means that name in the workspace and in the folders
    of the two levels below it, except in `.git` and `node_modules`."""
    unprotected: Annotated[ProtectedRules, AMONG, Mark.OWNERS_ONLY, Mark.FILES_ONLY] = ()
    """Entries of the built-in list of protected paths, or of `protected`, that programs may change, written as they are
    there; or a path that git's configuration names."""


class WorkspaceSettings(Value):
    """`[workspace]`: the files of a workspace that programs must not read."""

    hide: Annotated[FileRules, Mark.JOINED] = DEFAULT_HIDDEN
    """Files that hold secrets, which no program can read, change or remove. The patterns of all files are added to the
    built-in ones. `.env` means that name at any depth, `secrets/` a folder with all in it, `.aws/credentials` the end
    of a path, `/deploy/prod.yaml` that path alone. `*` and `?` match within a name; upper and lower case are the same.
    `*.pem` and `*.key` hide a file only if it holds a private key, `.npmrc` only if it holds a token."""
    show: Annotated[FileRules, AMONG, Mark.OWNERS_ONLY] = ()
    """Files that are not hidden, and with a final slash folders that are not searched, in the notation of `hide`.
    `.env.example` and other templates are always shown, and so is what `.git`, `.venv`, `site-packages` and
    `node_modules` contain."""
    directory: Annotated[
        tuple[GrantedDirectory, ...], Field(max_length=MAX_DIRECTORIES), COVERED, Mark.OWNERS_ONLY
    ] = ()
    """Directories beside the workspace that programs with access to their workspace may use, too. Hidden files and
    protected paths hold in them as in the workspace. Sessions of tokens have none."""
    repository: Permission = True
    """Whether programs with access to the workspace may use the git repository that it belongs to, if its `.git` is
    elsewhere: the workspace is a linked worktree, or a directory of a repository. Git's configuration is given without
    credentials. Hooks and configuration are never writable."""


class AuditSettings(Value):
    """`[audit]`: where the ledger is, and how durably it is written."""

    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "audit")
    """Directory of the ledger; by default `paddock/audit` in the user's state directory."""
    required: Annotated[Literal["effects", "all"], stricter("effects", "all")] = "all"
    """What does not run if its record cannot be written: everything (`all`), or everything except pure computations
    (`effects`)."""
    sync: Annotated[Literal["batch", "always"], stricter("batch", "always")] = "batch"
    """Whether each record is written to disk before its work starts (`always`), or several together up to 0.2 seconds
    later (`batch`)."""


class ArtifactSettings(Value):
    """`[artifacts]`: where the output of programs is stored, how much of it and for how long."""

    enabled: Permission = True
    """Whether output is stored."""
    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "artifacts")
    """Directory of stored output; by default `paddock/artifacts` in the user's state directory."""
    url: Annotated[str | None, SAME, Mark.OWNERS_ONLY] = None
    """Bucket to use instead of the directory: `s3://`, `gs://` or `az://`. Credentials come from the environment."""
    ttl_hours: Annotated[int, Field(gt=0, le=1_000_000), SMALLER] = 24
    """Time after which stored output is deleted, in hours."""
    max_bytes: Annotated[int, Field(ge=1024), SMALLER] = 10 * MIB
    """Maximum stored output of one execution, both streams together, in bytes. Larger output is not stored."""
    max_read_bytes: Annotated[int, Field(ge=1024), SMALLER] = 50 * MIB
    """Maximum decompressed size of stored output when it is read, in bytes."""
    cross_workspace: Permission = False
    """Whether stored output of other workspaces may be read."""


class RecordSettings(Value):
    """`[record]`: recordings of JavaScript programs, with which `paddock replay` runs them again.

    They are encrypted, and without the secrets that redaction finds.
    """

    payloads: Annotated[
        Literal["off", "asked", "kept"], stricter("kept", "asked", "off"), Mark.OWNERS_ONLY
    ] = "off"
    """Which programs are recorded, with their text, input, calls and results: none (`off`), those whose request asks
    for it (`asked`), or all except computations and programs of sessions (`kept`). `paddock run --record` asks for it,
    and needs no setting unless a settings file says `off`."""
    payload_days: Annotated[int, Field(gt=0, le=36_500), SMALLER, Mark.OWNERS_ONLY] = 14
    """Time after which a recording is deleted, in days."""
    payload_bytes: Annotated[int, Field(ge=1024, le=1024 * MIB), SMALLER, Mark.OWNERS_ONLY] = 8 * MIB
    """Maximum size of one recording, in bytes. A larger run is not recorded, and its console has a warning."""
    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "recordings")
    """Directory of recordings; by default `paddock/recordings` in the user's state directory. Their key is in the
    vault."""


class RedactionPattern(Value):
    """One `[[redaction.patterns]]`. Each match within a line is replaced by `[REDACTED:name]`."""

    pattern: Annotated[str, Field(min_length=1, max_length=1000)]
    """Regular expression in RE2 syntax, whose matching takes linear time."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9 _.-]{1,40}$")] = "custom"
    """Name in the mark that replaces a match."""
    flags: Annotated[str, Field(pattern=r"^[imsU]{0,4}$")] = ""
    """Flags of RE2: `i` ignores case."""


class RedactionSettings(Value):
    """`[redaction]`: what is removed from output, results, console lines, errors and answers."""

    enabled: Safeguard = True
    """Whether rules and patterns are applied. Secrets of the vault that a program has read are always removed."""
    include_defaults: Safeguard = True
    """Whether the built-in rules are applied. They find keys and tokens of known formats, named values that look like
    secrets, passwords in addresses, and private keys."""
    patterns: Annotated[tuple[RedactionPattern, ...], Mark.JOINED] = ()
    """Patterns of all files together; a pattern that RE2 rejects is skipped with a warning."""


def _check_network(text: str) -> str:
    ip_network(text)
    return text


class NetworkSettings(NetworkLimits):
    """`[network]`: which hosts programs may connect to, and how much.

    The rules of each file are judged separately. All files must agree: a workspace can only narrow.
    """

    rule: Annotated[tuple[NetworkRule, ...], Mark.JOINED] = ()
    """Rules in the order of the files (system, user, workspace). Deny beats ask, and ask beats allow. Without a rule
    that allows a host, programs cannot connect to it."""


class SdkSettings(Value):
    """`[sdk]`: which methods of `paddock.*` programs may call, and for how long."""

    script: AllowedNames = ("*",)
    """Methods that scripts of people may call: names, globs such as `vault.*`, or `*`."""
    execute: AllowedNames = (
        *("changes.accept", "changes.undo", "cir.*", "compute", "exec", "health.check", "ledger.verify"),
        *("output.query", "script.run", "sequence.list", "temporal.list", "tool"),
    )
    """Methods that programs of agents may call. None of the defaults reads a secret or reaches the network, and a
    person is asked before changes are accepted or undone."""

    def list_granted(self, profile: "Profile") -> tuple[str, ...]:
        """Return the names of the methods that programs of a profile may call; a computation calls none."""
        return {"script": self.script, "execute": self.execute, "compute": ()}[profile]

    call_timeout_ms: Maximum = 30_000
    """Maximum time of one call, in milliseconds."""
    long_call_timeout_ms: Maximum = 600_000
    """Maximum time of `sequence.run` and `temporal.fire`, in milliseconds."""
    commands: Annotated[tuple[SdkCommand, ...], AMONG, Mark.OWNERS_ONLY, Mark.FILES_ONLY] = ()
    """Commands of this machine that programs may call as functions, if their profile grants the name. A workspace may
    not set them."""
    signals: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "signals.db")
    """Database of `paddock.cir`; by default `paddock/signals.db` in the user's state directory."""
    webhooks: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "webhooks.json")
    """File of registered webhooks; by default `paddock/webhooks.json` in the user's state directory."""
    webhook_networks: Annotated[
        tuple[Annotated[str, AfterValidator(_check_network)], ...], AMONG, Mark.OWNERS_ONLY
    ] = ()
    """Networks that webhooks may reach in addition to public addresses, such as `10.1.0.0/16`."""
    notify: Annotated[tuple[str, ...], FREE, Mark.OWNERS_ONLY] = ("desktop", "webhook")
    """Notification channels of `notify.send`, in order of preference; the first one available is used. A channel is
    `desktop`, `webhook`, or the name of one of `commands` that takes `title` and `body`."""
    temporals: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "temporals")
    """Directory with the last run of each schedule; by default `paddock/temporals` in the user's state directory."""


class VaultSettings(Value):
    """`[vault]`: where secrets are kept."""

    backend: Annotated[Literal["auto", "keyring", "file", "cluster"], SAME, Mark.OWNERS_ONLY] = "auto"
    """Where secrets are kept: in the keyring of the operating system (`keyring`), in an encrypted file (`file`), in the
    keyring if there is one (`auto`), or encrypted in the database of `cluster.url` (`cluster`)."""
    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "vault")
    """Directory of the encrypted file and its key; by default `paddock/vault` in the user's state directory."""
    key_file: Annotated[Path | None, SAME, Mark.OWNERS_ONLY] = None
    """File with the Fernet keys of the vault in the database, one per line: the first one encrypts, all decrypt."""


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("this is an address or a path, but contains a NUL character")
    return text


class ServerSettings(Value):
    """`[servers]`: how upstream MCP servers are run."""

    config: Annotated[Path | None, FREE, Mark.OWNERS_ONLY] = None
    """Servers file to read instead of `.paddock/servers.json` and `.mcp.json` of the workspace. It names commands: keep
    it outside of workspaces that programs may write to. A program that could change it does not start."""
    state: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "servers")
    """Directory of pinned tool definitions and inferred result types."""
    registry: OwnersPath = Field(
        default_factory=lambda: user_state_path("paddock") / "servers" / "registry.json"
    )
    """List of available servers, in the format of the official registry. Without the file, no server is offered."""
    registry_source: Annotated[str, AfterValidator(_without_nul), SAME, Mark.OWNERS_ONLY] = ""
    """Source of that list for `paddock servers refresh`: the `https://` address of a registry, or a file outside of
    workspaces that programs may write to. No other command downloads it."""
    trust: OwnersPath = Field(default_factory=lambda: user_config_path("paddock") / "trusted-servers.json")
    """JSON array of trusted servers: `npm:NAME`, `pypi:NAME`, `remote:NAME`, or `npm:@SCOPE/*`. `@VERSION` after a
    name trusts one version. A bare name is trusted if only one source has it. Without the file nothing is trusted."""
    questions: AllowedNames = ()
    """Servers, by globs over their names, that may ask a person during a call. The person sees the question and the
    answer that the form suggests, and agrees or refuses. Programs never answer."""
    semantic_search: Annotated[Literal["auto", "on", "off"], stricter("on", "auto", "off")] = "auto"
    """Whether searches also rank tools by meaning, with a model on this machine: as soon as the model is ready, if
    `paddock-sandbox[semantic]` is installed (`auto`), always, where a search waits and a missing model is an error
    (`on`), or never (`off`)."""
    max_live: Maximum = 20
    """Maximum number of running servers. The one that has been idle for longest is stopped for another one."""
    idle_timeout_ms: Maximum = 300_000
    """Time after which an unused server is stopped, in milliseconds."""
    answer_values: Maximum = MAX_VALUES
    """Maximum number of JSON values in one message of a server. Each may take up to 200 bytes of Paddock's memory."""
    call_timeout_ms: Maximum = 600_000
    """Maximum time of one call, in milliseconds, whatever `timeoutMs` of the servers file says."""


def _expand_path(path: Path) -> Path:
    whole = path.expanduser()
    if not whole.is_absolute():
        raise ValueError("write a path that begins with / or ~/")
    return whole


class Repository(Value):
    """One `[[mcp.repos]]`: a further workspace that programs under the compat names may select.

    Programs there run under the settings of that workspace. A workspace may not register any.
    """

    repo_id: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the workspace. The served workspace has the name of its directory."""
    root_path: Annotated[Path, AfterValidator(_expand_path)]
    """Directory of the workspace, absolute or below the home directory (`~/`)."""


class McpSettings(Value):
    """`[mcp]`: the MCP server, `paddock serve mcp`."""

    answer_characters: Maximum = 40_000
    """Maximum size of one result, in characters, as text and as data. The rest is left out, and the answer says so."""
    repos: Annotated[tuple[Repository, ...], Mark.JOINED, Mark.OWNERS_ONLY] = ()
    """Workspaces that programs under the compat names may select, of all files together."""
    shutdown_grace_ms: Count = 5_000
    """Maximum time that running calls have to finish after SIGTERM or Ctrl-C, in milliseconds. Calls that run longer
    end as `cancelled`, and their clients are answered."""
    task_after_ms: Annotated[int, Field(ge=0), FREE] = 5_000
    """Time after which a call continues as a task, in milliseconds, if its client declares the extension
    `io.modelcontextprotocol/tasks`."""


class GuestSettings(Value):
    """`[guest]`: the pool of guest workers, and the check of their programs."""

    max_workers: Maximum = 8
    """Maximum number of JavaScript programs that run at the same time. Further ones wait."""
    spare_workers: Count = 4
    """Number of workers that are started ahead."""
    check_typescript: Annotated[Check, FREE] = "types"
    """What the types of a TypeScript program that names `servers` decide, once `paddock runtimes install types` has
    installed the compiler. With `types` a program that contradicts the declarations of its tools does not start. With
    `warn` it starts, and the console says what is wrong. `off` checks nothing. A request may ask for another value."""
    check_javascript: Annotated[Check, FREE] = "warn"
    """The same for JavaScript programs."""


class PythonSettings(Value):
    """`[runtimes.python]`: programs in Python."""

    environment: Annotated[Path | None, FREE, Mark.OWNERS_ONLY] = None
    """Directory of a virtual environment (venv, uv, virtualenv or conda) whose interpreter and packages programs use.
    Programs can read it and cannot change it."""


class NodeSettings(Value):
    """`[runtimes.node]`: programs in JavaScript and TypeScript."""

    environment: Annotated[Path | None, FREE, Mark.OWNERS_ONLY] = None
    """Directory with a `node_modules` whose packages programs may load, if they name no packages themselves. Programs
    can read it and cannot change it."""


def _read_recipes(entries: Mapping[str, Any]) -> "Mapping[str, Recipe]":
    if not entries:
        return entries
    from paddock.policy.settings.recipes import Recipe, read_recipe  # its models take milliseconds to make

    return {
        name: entry if isinstance(entry, Recipe) else read_recipe(name, entry)
        for name, entry in entries.items()
    }


Recipes = Annotated[Mapping[str, Any], AfterValidator(_read_recipes)]
"""Languages by name; to type checkers `Mapping[str, Recipe]`."""


class RuntimeSettings(Value):
    """`[runtimes]`: programs in language runtimes (`paddock exec`), and the maximum that they may be granted."""

    enabled: Permission = True
    """Whether programs in language runtimes may run."""
    allowed: AllowedNames = ("*",)
    """Runtimes that may be used: a list of names, or `*` for every runtime, also those of `recipes`."""
    recipes: Annotated[Recipes, Mark.JOINED, Mark.OWNERS_ONLY] = Field(default_factory=dict)
    """Languages that are added, a table `[runtimes.recipes.NAME]` for each, of all files together."""
    executables: Annotated[tuple[str, ...], FEWER] = ()
    """Executables that may run programs, by name. An empty list allows every executable that fits the runtime."""
    timeout_ms: Annotated[int, Field(ge=MIN_TIMEOUT_MS, le=MAX_TIMEOUT_MS), SMALLER] = 30_000
    """Maximum time of a program, including compilation, in milliseconds. It is also the default."""
    memory_bytes: Maximum = 1024 * MIB
    """Maximum memory of a program, in bytes. It is also the default."""
    stdout_bytes: Annotated[int, Field(ge=1024), SMALLER] = MIB
    """Maximum standard output in an answer, in bytes: half from its head and half from its tail."""
    stderr_bytes: Annotated[int, Field(ge=1024), SMALLER] = 256 * KIB
    """Maximum standard error in an answer, in bytes."""
    environment: AllowedNames = ()
    """Environment variables of Paddock that programs get, in addition to those that runtimes need."""
    access: Annotated[Access, _STRICTER_ACCESS] = "read-only"
    """Maximum access of programs to the workspace: `none`, `read-only`, `overlay` (they write to an overlay, and a
    person accepts the changes), or `workspace-write`."""
    network: Annotated[Network, _STRICTER_NETWORK] = "loopback"
    """Maximum access of programs to the network: `none`, their own network with only `127.0.0.1` (`loopback`), also
    the hosts that `[[network.rule]]` allows (`hosts`), or all of it (`full`)."""
    max_jobs: Annotated[int, Field(ge=1, le=1024), SMALLER] = Field(default_factory=count_usable_processors)
    """Maximum number of programs that run at the same time; by default the number of processors."""
    max_waiting: Count = 1000
    """Maximum number of programs that wait. A further program is `unavailable`: it did not start; retry later."""
    max_wait_ms: Maximum = 3_600_000
    """Maximum wait of a program, in milliseconds. After that it is `unavailable`."""
    workspace_environment: Annotated[Permission, Mark.OWNERS_ONLY] = False
    """Whether Python programs use the virtual environment of their workspace: the activated one (`VIRTUAL_ENV`), or
    `.venv`. For a program that may write to the workspace, it is read-only in the tier `namespaces`, and not used in
    the tier `landlock`."""
    python: PythonSettings = Field(default_factory=PythonSettings)
    """Programs in Python."""
    node: NodeSettings = Field(default_factory=NodeSettings)
    """Programs in JavaScript and TypeScript."""
    cache_bytes: Count = 512 * MIB
    """Maximum size of the cache of compiled programs, in bytes; 0 disables it."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Every runtime by name: the built-in ones, then those of `recipes`."""
        return (*RUNTIMES, *self.recipes)

    def allows(self, runtime: str) -> bool:
        """Tell whether a runtime may be used."""
        return runtime in self.allowed or "*" in self.allowed


class SessionSettings(Value):
    """`[sessions]`: interpreters that live across requests. By default, nothing in them runs between two requests."""

    enabled: Permission = True
    """Whether sessions may be opened."""
    background: Permission = False
    """Whether sessions may be opened that run between two requests, too: their threads and processes go on, with the
    limits of one program."""
    idle_ms: Maximum = 900_000
    """Time without use after which a session is closed, in milliseconds."""
    max_ms: Maximum = 28_800_000
    """Maximum age of a session, in milliseconds."""
    max: Maximum = 32
    """Maximum number of open sessions."""
    max_per_actor: Maximum = 8
    """Maximum number of open sessions of one caller. For another one, the one not used for longest is closed."""
    memory_bytes: Maximum = 4096 * MIB
    """Maximum memory of all sessions together, in bytes. Beyond it, those not used for longest are closed."""
    disk_bytes: Maximum = 512 * MIB
    """Maximum size of the files of one session, in bytes."""


class ToolSettings(Value):
    """`[tools]`: script tools (`paddock tool`), and the maximum that they may be granted."""

    enabled: Permission = True
    """Whether script tools may run."""
    folders: Annotated[tuple[str, ...], FREE, Mark.OWNERS_ONLY] = ()
    """Further folders with tools, or with prompts that have tools."""
    timeout_ms: Maximum = 30_000
    """Default maximum time of a tool, in milliseconds."""
    max_timeout_ms: Maximum = 300_000
    """Maximum time that a tool may ask for, in milliseconds. A tool that asks for more gets this."""
    memory_bytes: Maximum = 1024 * MIB
    """Maximum memory of a tool and its processes, in bytes."""
    output_bytes: Annotated[int, Field(ge=1024), SMALLER] = 10 * MIB
    """Maximum output of a tool on each stream, in bytes."""
    strict_nulls: Safeguard = False
    """Whether `null` is checked like any other value. Otherwise it is accepted for every type."""
    environment: AllowedNames = ()
    """Environment variables of Paddock that `${NAME}` in a tool's `env` may name, in addition to harmless ones."""
    access: Annotated[Access, _STRICTER_ACCESS] = "read-only"
    """Maximum access to the workspace that a tool may declare: `none`, `read-only`, `overlay` (it writes to an overlay,
    and a person accepts the changes), or `workspace-write`."""
    network: Annotated[Network, _STRICTER_NETWORK] = "loopback"
    """Maximum access to the network that a tool may declare: `none`, its own network with only `127.0.0.1`
    (`loopback`), also the hosts that `[[network.rule]]` allows (`hosts`), or all of it (`full`)."""
    max_jobs: Maximum = 8
    """Maximum number of script tools that run at the same time. Further ones wait."""


class TelemetrySettings(Value):
    """`[telemetry]`: traces and metrics, with `pip install 'paddock-sandbox[telemetry]'`. No workspace may set them."""

    traces: Annotated[Literal["none", "otlp", "console"], FREE, Mark.OWNERS_ONLY] = "none"
    """Where traces go: nowhere (`none`), to a collector by OTLP over HTTP (`otlp`), or to standard error
    (`console`)."""
    endpoint: Annotated[str, Field(pattern=r"^(https?://[^\s@]+)?$"), FREE, Mark.OWNERS_ONLY] = ""
    """Address of the collector, without `/v1/traces`. Default: `OTEL_EXPORTER_OTLP_ENDPOINT`, or
    `http://localhost:4318`. Credentials belong in `OTEL_EXPORTER_OTLP_HEADERS`."""
    metrics: Annotated[bool, FREE, Mark.OWNERS_ONLY] = False
    """Whether `paddock serve mcp --http` serves `/metrics` to clients that have the token."""


LogLevel = Literal["error", "warning", "info", "debug"]


class LogSettings(Value):
    """`[log]`: what `paddock serve` writes to standard error; a workspace may not set it."""

    format: Annotated[Literal["text", "json"], FREE, Mark.OWNERS_ONLY] = "text"
    """Format of log lines: text, or one JSON object for each line."""
    level: Annotated[LogLevel, FREE, Mark.OWNERS_ONLY] = "warning"
    """Minimum level of log lines, unless `--log-level` sets another. At `info` there is one line for each request."""


class Settings(Value):
    """All settings, merged from three files, the environment and flags."""

    limits: LimitSettings = Field(default_factory=LimitSettings)
    """Ceilings of guest programs."""
    grants: GrantSettings = Field(default_factory=GrantSettings)
    """The maximum that any request may be granted."""
    sandbox: SandboxSettings = Field(default_factory=SandboxSettings)
    """Confinement."""
    workspace: WorkspaceSettings = Field(default_factory=WorkspaceSettings)
    """Files of the workspace."""
    overlay: OverlaySettings = Field(default_factory=OverlaySettings)
    """Changes of programs that a person accepts."""
    audit: AuditSettings = Field(default_factory=AuditSettings)
    """The ledger."""
    artifacts: ArtifactSettings = Field(default_factory=ArtifactSettings)
    """Stored output."""
    record: RecordSettings = Field(default_factory=RecordSettings)
    """Recordings."""
    redaction: RedactionSettings = Field(default_factory=RedactionSettings)
    """Removal of secrets from output."""
    sdk: SdkSettings = Field(default_factory=SdkSettings)
    """Methods of the SDK."""
    vault: VaultSettings = Field(default_factory=VaultSettings)
    """Secrets."""
    servers: ServerSettings = Field(default_factory=ServerSettings)
    """Upstream MCP servers."""
    mcp: McpSettings = Field(default_factory=McpSettings)
    """The MCP server."""
    serve: ServeSettings = Field(default_factory=ServeSettings)
    """A server that many users share."""
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)
    """A store that the servers of several machines share."""
    guest: GuestSettings = Field(default_factory=GuestSettings)
    """Guest workers."""
    runtimes: RuntimeSettings = Field(default_factory=RuntimeSettings)
    """Programs in language runtimes."""
    sessions: SessionSettings = Field(default_factory=SessionSettings)
    """Interpreters that live across requests."""
    packages: PackageSettings = Field(default_factory=PackageSettings)
    """Packages of programs."""
    tools: ToolSettings = Field(default_factory=ToolSettings)
    """Script tools."""
    network: NetworkSettings = Field(default_factory=NetworkSettings)
    """Hosts that programs may connect to."""
    policy: PolicySettings = Field(default_factory=PolicySettings)
    """Rules on requests."""
    flow: FlowSettings = Field(default_factory=FlowSettings)
    """What must not flow from one tool to another."""
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings)
    """Asking a person."""
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    """Traces and metrics."""
    log: LogSettings = Field(default_factory=LogSettings)
    """Log lines."""
    ui: UiSettings = Field(default_factory=UiSettings)
    """The page."""

    if TYPE_CHECKING:

        def __init__(self, **sections: Value | Mapping[str, Any]) -> None: ...
