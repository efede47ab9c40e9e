"""What flow rules found about one request."""

from typing import NamedTuple

MAX_REFERENCES = 16
"""Maximum number of earlier calls, and of texts found in arguments, that are named for one request."""


class FlowFinding(NamedTuple):
    """What flow rules found about one request, for its record and for the person who is asked."""

    reads: tuple[str, ...] = ()
    """Labels of its result: `private`, `untrusted`."""
    sinks: tuple[str, ...] = ()
    """What it is a way to: `external`."""
    effect: str = ""
    """What the deciding rule does: `mark`, `ask` or `deny`; empty if none applies."""
    rule: str = ""
    """The deciding rule, such as `user flow rule 1`."""
    sources: tuple[str, ...] = ()
    """Ids of the earlier calls that read what the rule names."""
    evidence: tuple[str, ...] = ()
    """Texts of earlier results that stand in its arguments: id of the call, encoding, number of characters."""
    shown: tuple[str, ...] = ()
    """The same for the person who is asked, with the beginning of each text. No record contains it."""
