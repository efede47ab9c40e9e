"""Paddock runs unreviewed code and gives it exactly the powers its policy grants."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from paddock._version import __version__

if TYPE_CHECKING:
    from paddock.confinement.sandbox.checked import prove_sandbox
    from paddock.confinement.sandbox.protocol import Sandbox, SandboxSlot, Streams
    from paddock.engines.script_tools.prompts.service import PromptReply
    from paddock.gate.batch.program import Case, CaseResult, CaseVerdict, Checker, Program, ProgramResult
    from paddock.model.approval import Answer, Question
    from paddock.model.artifact import Cursor, Excerpt, LineRange, OutputFound, OutputQuery
    from paddock.model.errors import (
        AlreadyClaimed,
        ApprovalError,
        ArtifactError,
        ArtifactStoreError,
        ArtifactTooLarge,
        AskerEnded,
        ConfigurationError,
        DatabaseRestored,
        EngineError,
        FlagError,
        InvalidArguments,
        InvalidHandle,
        LedgerError,
        LedgerUnusable,
        NotASecret,
        PaddockError,
        RecordingError,
        RequestError,
        ScriptNotFound,
        SdkError,
        SdkFailed,
        ServerError,
        ServerRejected,
        ServerTimeout,
        ServerUnauthorized,
        ServerUnavailable,
        SignalError,
        StoreUnavailable,
        ToolChanged,
        ToolError,
        ToolNotFound,
        UnknownArtifact,
        UnknownServer,
        UnknownTool,
        VaultError,
    )
    from paddock.model.limits import Grants, GuestLimits
    from paddock.model.outcome import (
        CallRecord,
        ConsoleLine,
        Decision,
        ErrorInfo,
        Frame,
        Outcome,
        OutcomeError,
        PlannedCall,
        SandboxFacts,
        Usage,
    )
    from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult, ProcessUsage
    from paddock.model.program import CapturedStream, ProgramEnd, ProgramGrants, ProgramLimits, ProgramTerms
    from paddock.model.sandbox import TierReport
    from paddock.model.session import OpenSessions, Result, SessionEnd, SessionInfo
    from paddock.model.status import Status
    from paddock.model.tool import ToolEnd, ToolTerms
    from paddock.model.work_files import OutputFile
    from paddock.policy.settings.schema import Settings
    from paddock.record.ledger.line_format import chain_record
    from paddock.record.ledger.sink import AuditRecord, AuditSink
    from paddock.record.output.backends import ArtifactStore
    from paddock.surfaces.client.blocking import BlockingPaddock
    from paddock.surfaces.client.executor import ProgramExecutor
    from paddock.surfaces.client.found_tools import FoundTool, FoundTools
    from paddock.surfaces.client.paddock import Paddock
    from paddock.surfaces.client.ray.dataset import PaddockBatch
    from paddock.surfaces.client.ray.ray_executor import RayExecutor
    from paddock.surfaces.client.sessions import BlockingSession, InterpreterSession

if sys.platform != "linux":  # every import of the package runs this check; no other module needs one
    raise ImportError(
        f"Paddock runs on Linux, and this is {sys.platform}. On Windows, install it in WSL 2. On macOS, and on Windows "
        "without WSL, run it in a container: docs/docker.md."
    )

__all__ = [
    "AlreadyClaimed",
    "Answer",
    "ApprovalError",
    "ArtifactError",
    "ArtifactStore",
    "ArtifactStoreError",
    "ArtifactTooLarge",
    "AskerEnded",
    "AuditRecord",
    "AuditSink",
    "BlockingPaddock",
    "BlockingSession",
    "CallRecord",
    "CapturedStream",
    "Case",
    "CaseResult",
    "CaseVerdict",
    "Checker",
    "ConfigurationError",
    "ConsoleLine",
    "Cursor",
    "DatabaseRestored",
    "Decision",
    "EngineError",
    "ErrorInfo",
    "Excerpt",
    "FlagError",
    "FoundTool",
    "FoundTools",
    "Frame",
    "Grants",
    "GuestLimits",
    "InterpreterSession",
    "InvalidArguments",
    "InvalidHandle",
    "LedgerError",
    "LedgerUnusable",
    "LineRange",
    "NotASecret",
    "OpenSessions",
    "Outcome",
    "OutcomeError",
    "OutputFile",
    "OutputFound",
    "OutputQuery",
    "Paddock",
    "PaddockBatch",
    "PaddockError",
    "PlannedCall",
    "ProcessGrants",
    "ProcessLimits",
    "ProcessResult",
    "ProcessUsage",
    "Program",
    "ProgramEnd",
    "ProgramExecutor",
    "ProgramGrants",
    "ProgramLimits",
    "ProgramResult",
    "ProgramTerms",
    "PromptReply",
    "Question",
    "RayExecutor",
    "RecordingError",
    "RequestError",
    "Result",
    "Sandbox",
    "SandboxFacts",
    "SandboxSlot",
    "ScriptNotFound",
    "SdkError",
    "SdkFailed",
    "ServerError",
    "ServerRejected",
    "ServerTimeout",
    "ServerUnauthorized",
    "ServerUnavailable",
    "SessionEnd",
    "SessionInfo",
    "Settings",
    "SignalError",
    "Status",
    "StoreUnavailable",
    "Streams",
    "TierReport",
    "ToolChanged",
    "ToolEnd",
    "ToolError",
    "ToolNotFound",
    "ToolTerms",
    "UnknownArtifact",
    "UnknownServer",
    "UnknownTool",
    "Usage",
    "VaultError",
    "__version__",
    "chain_record",
    "prove_sandbox",
]

_MODULES = {
    "AlreadyClaimed": "paddock.model.errors",
    "Answer": "paddock.model.approval",
    "ApprovalError": "paddock.model.errors",
    "ArtifactError": "paddock.model.errors",
    "ArtifactStore": "paddock.record.output.backends",
    "ArtifactStoreError": "paddock.model.errors",
    "ArtifactTooLarge": "paddock.model.errors",
    "AskerEnded": "paddock.model.errors",
    "AuditRecord": "paddock.record.ledger.sink",
    "AuditSink": "paddock.record.ledger.sink",
    "BlockingPaddock": "paddock.surfaces.client.blocking",
    "BlockingSession": "paddock.surfaces.client.sessions",
    "CallRecord": "paddock.model.outcome",
    "CapturedStream": "paddock.model.program",
    "Case": "paddock.gate.batch.program",
    "CaseResult": "paddock.gate.batch.program",
    "CaseVerdict": "paddock.gate.batch.program",
    "Checker": "paddock.gate.batch.program",
    "ConfigurationError": "paddock.model.errors",
    "ConsoleLine": "paddock.model.outcome",
    "Cursor": "paddock.model.artifact",
    "DatabaseRestored": "paddock.model.errors",
    "Decision": "paddock.model.outcome",
    "EngineError": "paddock.model.errors",
    "ErrorInfo": "paddock.model.outcome",
    "Excerpt": "paddock.model.artifact",
    "FlagError": "paddock.model.errors",
    "FoundTool": "paddock.surfaces.client.found_tools",
    "FoundTools": "paddock.surfaces.client.found_tools",
    "Frame": "paddock.model.outcome",
    "Grants": "paddock.model.limits",
    "GuestLimits": "paddock.model.limits",
    "InterpreterSession": "paddock.surfaces.client.sessions",
    "InvalidArguments": "paddock.model.errors",
    "InvalidHandle": "paddock.model.errors",
    "LedgerError": "paddock.model.errors",
    "LedgerUnusable": "paddock.model.errors",
    "LineRange": "paddock.model.artifact",
    "NotASecret": "paddock.model.errors",
    "OpenSessions": "paddock.model.session",
    "Outcome": "paddock.model.outcome",
    "OutcomeError": "paddock.model.outcome",
    "OutputFile": "paddock.model.work_files",
    "OutputFound": "paddock.model.artifact",
    "OutputQuery": "paddock.model.artifact",
    "Paddock": "paddock.surfaces.client.paddock",
    "PaddockBatch": "paddock.surfaces.client.ray.dataset",
    "PaddockError": "paddock.model.errors",
    "PlannedCall": "paddock.model.outcome",
    "ProcessGrants": "paddock.model.process",
    "ProcessLimits": "paddock.model.process",
    "ProcessResult": "paddock.model.process",
    "ProcessUsage": "paddock.model.process",
    "Program": "paddock.gate.batch.program",
    "ProgramEnd": "paddock.model.program",
    "ProgramExecutor": "paddock.surfaces.client.executor",
    "ProgramGrants": "paddock.model.program",
    "ProgramLimits": "paddock.model.program",
    "ProgramResult": "paddock.gate.batch.program",
    "ProgramTerms": "paddock.model.program",
    "PromptReply": "paddock.engines.script_tools.prompts.service",
    "Question": "paddock.model.approval",
    "RayExecutor": "paddock.surfaces.client.ray.ray_executor",
    "RecordingError": "paddock.model.errors",
    "RequestError": "paddock.model.errors",
    "Result": "paddock.model.session",
    "Sandbox": "paddock.confinement.sandbox.protocol",
    "SandboxFacts": "paddock.model.outcome",
    "SandboxSlot": "paddock.confinement.sandbox.protocol",
    "ScriptNotFound": "paddock.model.errors",
    "SdkError": "paddock.model.errors",
    "SdkFailed": "paddock.model.errors",
    "ServerError": "paddock.model.errors",
    "ServerRejected": "paddock.model.errors",
    "ServerTimeout": "paddock.model.errors",
    "ServerUnauthorized": "paddock.model.errors",
    "ServerUnavailable": "paddock.model.errors",
    "SessionEnd": "paddock.model.session",
    "SessionInfo": "paddock.model.session",
    "Settings": "paddock.policy.settings.schema",
    "SignalError": "paddock.model.errors",
    "Status": "paddock.model.status",
    "StoreUnavailable": "paddock.model.errors",
    "Streams": "paddock.confinement.sandbox.protocol",
    "TierReport": "paddock.model.sandbox",
    "ToolChanged": "paddock.model.errors",
    "ToolEnd": "paddock.model.tool",
    "ToolError": "paddock.model.errors",
    "ToolNotFound": "paddock.model.errors",
    "ToolTerms": "paddock.model.tool",
    "UnknownArtifact": "paddock.model.errors",
    "UnknownServer": "paddock.model.errors",
    "UnknownTool": "paddock.model.errors",
    "Usage": "paddock.model.outcome",
    "VaultError": "paddock.model.errors",
    "chain_record": "paddock.record.ledger.line_format",
    "prove_sandbox": "paddock.confinement.sandbox.checked",
}
"""The module of each public name. It is imported at the name's first use, which keeps `import paddock` fast."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
