"""The notations of `workspace.hide` and `workspace.show`, with their defaults, and of `sandbox.protected`.

`hiding` and `protection` in `confinement/sandbox/child/` match them.
"""

from typing import Annotated

from pydantic import AfterValidator

_MAX_CHARS = 200
_MAX_HIDING_RULES = 200
_MAX_PROTECTED_RULES = 50
_WILDCARDS = frozenset("*?[")
_MAX_STARS = 2
"""Maximum number of `*` in a name: a workspace's file is untrusted, and the cost of a match grows with it."""
_PROTECTED_EXAMPLES = "write for example ci/deploy.sh, .github/workflows/** or **/.envrc"
_EXAMPLES = "write for example .env, *.p12, secrets/, .aws/credentials or /deploy/prod.yaml"

DEFAULT_HIDDEN = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".dev.vars",
    ".dev.vars.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    ".ssh/",
    ".gnupg/",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".htpasswd",
    ".git-credentials",
    ".config/git/credentials",
    ".npmrc",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings-security.xml",
    ".composer/auth.json",
    ".aws/credentials",
    ".aws/sso/cache/",
    ".aws/cli/cache/",
    ".azure/",
    ".config/gcloud/",
    "application_default_credentials.json",
    "client_secret*.json",
    ".boto",
    ".s3cfg",
    ".passwd-s3fs",
    ".databrickscfg",
    ".docker/config.json",
    ".dockercfg",
    ".kube/config",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".ray/auth_token",
    ".vault_pass",
    ".vault_pass.txt",
    ".config/gh/hosts.yml",
    ".config/hub",
    ".config/rclone/rclone.conf",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".streamlit/secrets.toml",
    "config/master.key",
    "config/credentials/*.key",
)
"""Files whose purpose is to hold secrets. A file that may hold one beside other content is not in this list."""

ALWAYS_SHOWN = (
    ".env.example",
    ".env.sample",
    ".env.template",
    ".env.dist",
    ".env.defaults",
    "example.env",
    "sample.env",
    "template.env",
    ".git/",
    ".venv/",
    "site-packages/",
    "node_modules/",
)
"""Templates, and folders whose files come from elsewhere."""


def _quote_rule(rule: str, examples: str) -> str:
    """Return an entry in quotes. Raises ValueError, with the examples, if it is too long or not printable."""
    shown = f"{rule[:_MAX_CHARS]!r}"
    if len(rule) > _MAX_CHARS:
        raise ValueError(f"{shown}... has more than {_MAX_CHARS} characters; {examples}")
    if not rule.isprintable():
        raise ValueError(f"{shown} contains a control character; {examples}")
    return shown


def _check_hiding_rule(rule: str) -> str:
    """Return a name or path to hide or to show. Raises ValueError if it is none."""
    shown = _quote_rule(rule, _EXAMPLES)
    parts = rule.removeprefix("/").removesuffix("/").split("/")
    if not {"", ".", "..", "~"}.isdisjoint(parts):
        raise ValueError(f"{shown} is not a name or a path, without . and ..; {_EXAMPLES}")
    if any("**" in part or part.count("*") > _MAX_STARS for part in parts):
        raise ValueError(f"{shown} has ** or more than {_MAX_STARS} times * in a name; {_EXAMPLES}")
    if any(not part.strip("*?") for part in parts):
        raise ValueError(f"{shown} has a name of wildcards alone; {_EXAMPLES}")
    return rule


def _check_protected_rule(rule: str) -> str:
    """Return a path or pattern relative to the workspace. Raises ValueError if it is none."""
    shown = _quote_rule(rule, _PROTECTED_EXAMPLES)
    inner = rule.removeprefix("**/").removesuffix("/**")
    parts = inner.split("/")
    if rule.startswith(("/", "~")) or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(
            f"{shown} is not a path below the workspace, without . and ..; {_PROTECTED_EXAMPLES}"
        )
    if any("**" in part for part in parts):
        raise ValueError(
            f"{shown} has ** elsewhere than at its beginning or end, between slashes; {_PROTECTED_EXAMPLES}"
        )
    if rule.startswith("**/") and not _WILDCARDS.isdisjoint(inner):
        raise ValueError(f"{shown} has a wildcard after **/, where only a path may be; {_PROTECTED_EXAMPLES}")
    return rule


def _limit_count(maximum: int) -> AfterValidator:
    def check_count(rules: tuple[str, ...]) -> tuple[str, ...]:
        if len(rules) > maximum:
            raise ValueError(f"there are {len(rules)} entries, and at most {maximum} are allowed in a file")
        return rules

    return AfterValidator(check_count)


FileRules = Annotated[
    tuple[Annotated[str, AfterValidator(_check_hiding_rule)], ...], _limit_count(_MAX_HIDING_RULES)
]
"""Names and paths of files, and with a final slash of folders."""
ProtectedRules = Annotated[
    tuple[Annotated[str, AfterValidator(_check_protected_rule)], ...], _limit_count(_MAX_PROTECTED_RULES)
]
"""Paths below the workspace, and patterns."""
