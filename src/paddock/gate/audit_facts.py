"""What the ledger records of a request and its end: names, sizes and hashes, never a payload."""

from collections.abc import Mapping

from paddock.gate.work import kind_of
from paddock.gate.work.ends import CANCELLED
from paddock.gate.work.kind import shorten_name, shorten_names
from paddock.model.flow import FlowFinding
from paddock.model.network import Connection
from paddock.model.outcome import Decision, RawResult
from paddock.model.request import ExecutionRequest
from paddock.record.ledger.sink import Field


def identity_facts(request: ExecutionRequest, decision: Decision) -> dict[str, Field]:
    """Return the identity of a request for the record: names, sizes and hashes, never a payload."""
    return {
        "actor": shorten_name(request.actor),
        "surface": shorten_name(request.surface),
        "kind": request.work.kind,
        "audit_hash": decision.audit_hash,
        "rule": shorten_name(decision.rule),
        **kind_of(request).list_facts(request.work, decision),
        **({} if decision.flow is None else _list_flow_facts(decision.flow)),
    }


def _list_flow_facts(finding: FlowFinding) -> dict[str, Field]:
    """Return what flow rules found, for the record: names and references, never a text of a result."""
    facts: dict[str, Field] = {
        "reads": shorten_names(finding.reads),
        "flow": finding.effect,
        "flow_rule": finding.rule,
        "flow_sources": shorten_names(finding.sources),
        "flow_evidence": shorten_names(finding.evidence),
    }
    return {name: fact for name, fact in facts.items() if fact}


def connection_facts(request: ExecutionRequest, connection: Connection) -> dict[str, Field]:
    """Return the facts of a connection of a program for the record.

    They contain no content, and a path only in the reason of a refused request.
    """
    return {
        "actor": shorten_name(request.actor),
        "surface": shorten_name(request.surface),
        **_list_connection_facts(connection),
    }


def server_connection_facts(server: str, connection: Connection) -> dict[str, Field]:
    """Return the facts of a connection of a confined server, which belongs to no request."""
    return {"server": shorten_name(server), **_list_connection_facts(connection)}


def _list_connection_facts(connection: Connection) -> dict[str, Field]:
    facts: dict[str, Field] = {
        "kind": "connection",
        "host": shorten_name(connection.host),
        "port": connection.port,
        "address": connection.address,
        "verdict": connection.verdict,
        "rule": shorten_name(connection.rule),
        "sent_bytes": connection.sent_bytes,
        "received_bytes": connection.received_bytes,
        "ms": round(connection.wall_ms, 3),
    }
    return facts | ({"reason": shorten_name(connection.reason)} if connection.reason else {})


def wait_facts(waits: Mapping[str, float]) -> dict[str, Field]:
    """Return how long a request waited before it ran, by `queue_ms` and `claim_ms`; nothing below a millisecond."""
    facts: dict[str, Field] = {"queue_ms": waits.get("queue_ms"), "claim_ms": waits.get("claim_ms")}
    return {name: ms for name, ms in facts.items() if isinstance(ms, float) and ms >= 1}


def end_facts(request: ExecutionRequest, result: RawResult, ms: float, size: int) -> dict[str, Field]:
    """Return the facts of a request's end; `size` is the size of its value as JSON, in bytes."""
    facts: dict[str, Field] = {"status": result.status.value, "ms": ms}
    own = kind_of(request).list_end_facts(request.work, result)
    if result is CANCELLED:
        return facts | own
    usage = result.usage
    facts |= {
        "cpu_ms": usage.cpu_ms,
        "peak_bytes": usage.peak_bytes,
        "bytes_out": size + usage.console_bytes,
        "calls": usage.host_calls,
        "tier": result.sandbox.tier,
        "layers": list(result.sandbox.layers),
    }
    facts |= own
    if result.artifact is not None:
        facts |= {"artifact": result.artifact}
    if (program := result.program) is not None:
        facts |= {"phase": program.phase, "exit_code": program.exit_code, "signal": program.signal}
        facts |= {"stdout_bytes": program.stdout.total_bytes, "stderr_bytes": program.stderr.total_bytes}
        facts |= {"artifact": program.artifact, "cached": program.cached, "survivors": program.survivors}
        facts |= {"compile_ms": program.compile_ms}
        facts |= {"limit": program.limit, "violations": shorten_names(program.violations)}
    if (changes := result.changes) is not None:
        counts = (f"{changes.added} added", f"{changes.modified} modified", f"{changes.deleted} deleted")
        facts |= {"changes": changes.id, "changes_method": changes.method, "changed": list(counts)}
    if result.directory_changes:
        facts |= {"directory_changes": [each.id for each in result.directory_changes if each.id]}
    if (tool := result.tool) is not None:
        facts |= {"exit_code": tool.exit_code}
        facts |= {"stdout_bytes": len(tool.stdout.encode()), "stderr_bytes": len(tool.stderr.encode())}
        facts |= {"violations": shorten_names(tool.violations)} if tool.violations else {}
    return facts
