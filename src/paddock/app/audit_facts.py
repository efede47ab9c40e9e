"""What the ledger keeps of a request and of its end: names, sizes and hashes, never a payload."""

import hashlib

from paddock.audit.sink import Field
from paddock.model import computation
from paddock.model.canonical import canonical
from paddock.model.outcome import Decision, RawResult, Status
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun

CANCELLED = RawResult(status=Status.CANCELLED)
"""The result of work that was cut off: what it used, and what confined it, nobody has told."""

_NAME = 200


def identity_facts(request: ExecutionRequest, decision: Decision) -> dict[str, Field]:
    """Return who asked for what: names, sizes and hashes, never a payload."""
    facts: dict[str, Field] = {
        "actor": _shorten_name(request.actor),
        "surface": _shorten_name(request.surface),
        "kind": request.work.kind,
        "audit_hash": decision.audit_hash,
        "rule": _shorten_name(decision.rule),
    }
    match request.work:
        case GuestRun(source=source) as work:
            data = source.encode("utf-8", "surrogatepass")
            facts |= {"name": _shorten_name(work.name), "profile": work.profile, "bytes_in": len(data)}
            facts |= {"source_sha256": hashlib.sha256(data).hexdigest(), "jit": decision.grants.jit}
            if work.computes:
                facts |= {"tool": computation.TOOL, "span": computation.SPAN}
        case ServerCall() as work:
            data = canonical(work.arguments)
            facts |= {"name": _shorten_name(f"{work.server}/{work.tool}"), "bytes_in": len(data)}
            facts |= {"arguments_sha256": hashlib.sha256(data).hexdigest()}
        case SdkCall() as work:
            data = canonical(work.arguments)
            facts |= {"name": _shorten_name(work.method), "bytes_in": len(data)}
            facts |= {"arguments_sha256": hashlib.sha256(data).hexdigest()}
        case RuntimeRun() as work:
            size = len((work.code or "").encode("utf-8", "surrogatepass")) + len(work.stdin or b"")
            facts |= {
                "name": work.runtime,
                "executable": _shorten_name(work.executable or ""),
                "bytes_in": size,
            }
            facts |= {
                "content_sha256": work.sha256,
                "argument_count": len(work.args),
                "cwd": _shorten_name(work.cwd),
            }
            facts |= {"access": work.access, "network": work.network}
            facts |= {"file": _shorten_name(work.file)} if work.file else {}
        case ToolRun() as work:
            data = canonical(work.inputs)
            facts |= {
                "name": _shorten_name(work.tool),
                "prompt": _shorten_name(work.prompt),
                "bytes_in": len(data),
            }
            facts |= {"arguments_sha256": hashlib.sha256(data).hexdigest()}
            facts |= {"script_sha256": work.script_sha256, "access": work.access, "network": work.network}
    return facts


def end_facts(request: ExecutionRequest, result: RawResult, ms: float, size: int) -> dict[str, Field]:
    """Return what became of it; `size` is that of its value as JSON."""
    computes = isinstance(request.work, GuestRun) and request.work.computes
    facts: dict[str, Field] = {"status": result.status.value, "ms": ms}
    if result is CANCELLED:
        return {**facts, "code": computation.code(result.status)} if computes else facts
    usage = result.usage
    facts |= {
        "cpu_ms": usage.cpu_ms,
        "peak_bytes": usage.peak_bytes,
        "bytes_out": size + usage.console_bytes,
        "calls": usage.host_calls,
        "tier": result.sandbox.tier,
        "layers": list(result.sandbox.layers),
    }
    if computes:
        facts |= {"bytes_out": usage.emitted_bytes, "code": computation.code(result.status)}
    if result.artifact is not None:
        facts |= {"artifact": result.artifact}
    if (program := result.program) is not None:
        facts |= {"phase": program.phase, "exit_code": program.exit_code, "signal": program.signal}
        facts |= {"stdout_bytes": program.stdout.total_bytes, "stderr_bytes": program.stderr.total_bytes}
        facts |= {"artifact": program.artifact, "cached": program.cached, "survivors": program.survivors}
        facts |= {"compile_ms": program.compile_ms}
        facts |= {"limit": program.limit, "violations": list(program.violations)}
    if (tool := result.tool) is not None:
        facts |= {"exit_code": tool.exit_code}
        facts |= {"stdout_bytes": len(tool.stdout.encode()), "stderr_bytes": len(tool.stderr.encode())}
        facts |= {"violations": list(tool.violations)} if tool.violations else {}
    return facts


def _shorten_name(text: str) -> str:
    """Return a name fit for a record: no lone surrogates, bounded."""
    return (text if text.isascii() else text.encode("utf-8", "replace").decode())[:_NAME]
