"""The facts of a record as text."""

from paddock.record.ledger.sink import AuditRecord


def render_facts(record: AuditRecord) -> str:
    """Return the facts of a record for people; hashes are for programs (`--json`)."""
    facts = {**({"parent": record.parent} if record.parent else {}), **record.fields}
    return " ".join(
        f"{name}={_render_fact(value)}"
        for name, value in facts.items()
        if value not in (None, "", ()) and not name.endswith(("_hash", "_sha256"))
    )


def _render_fact(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
