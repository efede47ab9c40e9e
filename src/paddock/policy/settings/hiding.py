"""The notation and the defaults of `workspace.hide` and `workspace.show` (`sandbox/child/hiding.py`)."""

from typing import Annotated

from pydantic import AfterValidator

from paddock.policy.settings.protection import quote_rule

_MAX_RULES = 200
_MAX_STARS = 2
"""Maximum number of `*` in a name: a workspace's file is untrusted, and the cost of a match grows with it."""
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


def check_rule(rule: str) -> str:
    """Return a name or path to hide or to show. Raises ValueError if it is none."""
    shown = quote_rule(rule, _EXAMPLES)
    parts = rule.removeprefix("/").removesuffix("/").split("/")
    if not {"", ".", "..", "~"}.isdisjoint(parts):
        raise ValueError(f"{shown} is not a name or a path, without . and ..; {_EXAMPLES}")
    if any("**" in part or part.count("*") > _MAX_STARS for part in parts):
        raise ValueError(f"{shown} has ** or more than {_MAX_STARS} times * in a name; {_EXAMPLES}")
    if any(not part.strip("*?") for part in parts):
        raise ValueError(f"{shown} has a name of wildcards alone; {_EXAMPLES}")
    return rule


def _check_count(rules: tuple[str, ...]) -> tuple[str, ...]:
    if len(rules) > _MAX_RULES:
        raise ValueError(f"there are {len(rules)} entries, and at most {_MAX_RULES} are allowed in a file")
    return rules


FileRules = Annotated[tuple[Annotated[str, AfterValidator(check_rule)], ...], AfterValidator(_check_count)]
"""Names and paths of files, and with a final slash of folders."""
