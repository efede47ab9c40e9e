"""The variables of a script: an allow-list, then the tool's own, then the request's."""

import re
from collections.abc import Collection, Mapping

INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "SHELL", "TERM", "TMPDIR", "TMP", "TEMP"),
        *("NODE_ENV", "NODE_PATH", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NODE_NO_WARNINGS"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"),
        *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"),
        *("EDITOR", "VISUAL", "COLORTERM", "FORCE_COLOR", "NO_COLOR"),
        *("CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_HOME"),
    }
)
"""Variables that are inherited from Paddock's environment. HOME and TMPDIR are those of the sandbox."""

_REFERENCE_PATTERN = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class VariableError(ValueError):
    """A tool uses a variable that it may not read."""


def environment(
    environ: Mapping[str, str],
    base: Mapping[str, str],
    tool: Mapping[str, str],
    request: Mapping[str, str],
    allowed: Collection[str],
) -> dict[str, str]:
    """Return the variables of a script; later ones take precedence. Raises VariableError.

    `${NAME}` in the tool's values refers to a variable of Paddock: an inherited one, or one that `allowed` names. The
    tool is untrusted; therefore any other name is rejected, not left out.
    """
    inherited = {
        name: value for name, value in environ.items() if name in INHERITED and not value.startswith("()")
    }
    seen = {name: value for name, value in environ.items() if name in INHERITED or name in allowed}

    def value(reference: re.Match[str]) -> str:
        if reference[1] in seen:
            return seen[reference[1]]
        if reference[1] in INHERITED or reference[1] in allowed:
            return ""
        raise VariableError(
            f"Variable {reference[1]} is not given to tools; name it in `environment` under [tools] in paddock.toml"
        )

    own = {name: _REFERENCE_PATTERN.sub(value, text) for name, text in tool.items()}
    return {**inherited, **base, **own, **request}
