"""Paddock's exceptions. Denials, timeouts and failing programs are outcomes, never exceptions.

PaddockError
├── ConfigurationError    a settings or server file says something Paddock does not understand
├── LedgerError           the audit record cannot be written or read
├── EngineError           a worker, the zygote or the transpiler broke a rule: our fault
└── ServerError           an upstream MCP server could not be reached or broke the protocol
"""


class PaddockError(Exception):
    """Base of every exception Paddock raises on purpose."""


class ConfigurationError(PaddockError):
    """A configuration file or variable is not understood; the text names the file, the key and the fix."""


class LedgerError(PaddockError):
    """The audit ledger cannot be written or read; nothing may run without its record."""


class EngineError(PaddockError):
    """A part of Paddock's own machinery failed; the program is not to blame."""


class ServerError(PaddockError):
    """An upstream server failed. `retryable` tells whether a later try can succeed."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
