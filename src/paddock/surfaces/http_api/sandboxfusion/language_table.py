"""The languages of SandboxFusion, and the runtimes that run them here.

Observable differences of the commands: C++ is compiled as C++20 and not C++17, Rust has the edition 2021 and not 2015,
and TypeScript and C# are compiled before the run. Every program that the older standards accept and language models
write means the same; what a compiler of these four rejects is reported where SandboxFusion reports it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from paddock.surfaces.http_api.sandboxfusion.models import Language


class LanguageEntry(NamedTuple):
    """One language."""

    runtime: str
    """The runtime that runs it: a built-in one, or one of the name that settings may add."""
    command: str
    """The command that SandboxFusion starts first, for the message without it."""
    compiles: bool = False
    """Whether SandboxFusion has a compile command for it, which `compile_result` describes."""
    file_name: str = ""
    """Name of the program's file, for a program that a tool of the language reads; empty for one that runs itself."""
    arguments: tuple[str, ...] = ()
    """Arguments of that tool."""
    launcher: str = ""
    """The program that starts the tool instead of `arguments`."""


_PYTEST_LAUNCHER = """\
import sys

try:
    import pytest
except ModuleNotFoundError:
    sys.exit(127)
sys.exit(pytest.main(["test_code.py"]))
"""

LANGUAGES: Mapping[Language, LanguageEntry] = MappingProxyType(
    {
        "python": LanguageEntry("python", "python"),
        "pytest": LanguageEntry("python", "pytest", file_name="test_code.py", launcher=_PYTEST_LAUNCHER),
        "cpp": LanguageEntry("cpp", "g++", compiles=True),
        "nodejs": LanguageEntry("node", "node"),
        "typescript": LanguageEntry("typescript", "tsx"),
        "go": LanguageEntry("go", "go", compiles=True),
        "go_test": LanguageEntry("go", "go", file_name="code_test.go", arguments=("test", "code_test.go")),
        "java": LanguageEntry("java", "javac", compiles=True),
        "php": LanguageEntry("php", "php"),
        "csharp": LanguageEntry("csharp", "dotnet"),
        "bash": LanguageEntry("shell", "bash"),
        "rust": LanguageEntry("rust", "rustc", compiles=True),
        "R": LanguageEntry("r", "Rscript"),
        "perl": LanguageEntry("perl", "perl"),
        "ruby": LanguageEntry("ruby", "ruby"),
        "kotlin_script": LanguageEntry("kotlin", "kotlin"),
        "lua": LanguageEntry("lua", "lua"),
        "julia": LanguageEntry("julia", "julia"),
        "racket": LanguageEntry("racket", "racket"),
        "scala": LanguageEntry("scala", "scalac", compiles=True),
        "swift": LanguageEntry("swift", "swiftc", compiles=True),
        "D_ut": LanguageEntry("d", "dmd", compiles=True),
        "cuda": LanguageEntry("cuda", "cmake", compiles=True),
        "python_gpu": LanguageEntry("python_gpu", "python", compiles=True),
        "junit": LanguageEntry("junit", "javac", compiles=True),
        "jest": LanguageEntry("jest", "npm"),
        "verilog": LanguageEntry("verilog", "iverilog"),
        "lean": LanguageEntry("lean", "lean"),
        "sql": LanguageEntry("", ""),
    }
)
"""The languages by name. `sql` has no runner, neither there nor here."""
MISSING_EXIT_CODE = 127
"""The exit code of a shell that does not find a command."""


def render_missing(entry: LanguageEntry) -> str:
    """Return what a shell writes to standard error if it does not find the command of a language."""
    return f"bash: line 1: {entry.command}: command not found\n"
