"""Warm starts, made once per toolchain, speed up later starts: Go's compiled standard library, archives of JVM classes.

    <cache>/warm/<recipe>/<identity of the toolchain>/

Programs can read but not write it. It is made from the recipe's own program and contains nothing of a request.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from paddock.engines.programs.steps import ProgramStep, StepPaths
from paddock.engines.programs.toolchain import Toolchain
from paddock.model.errors import EngineError
from paddock.model.process import GIB

_TIMEOUT_S = 600
_MAX_QUOTED_CHARS = 2000
_MAX_OTHER_TOOLCHAINS = 2
"""Maximum number of warm starts of other toolchains that are kept for a recipe."""


def warm(toolchain: Toolchain, kept: Path) -> Path | None:
    """Make the warm start of a toolchain below `kept` and return it; None if its variant has none.

    Keeps an existing one, and the latest of other toolchains of the recipe, because another version of it, or of
    Paddock, may be in use. Removes older ones. Raises EngineError, with the command's output, if it cannot be made.
    """
    if toolchain.variant.warm is None:
        return None
    ready = kept / toolchain.recipe.name / toolchain.identity
    if not ready.is_dir():
        new = () if kept.parent.exists() else (kept.parent,)
        ready.parent.mkdir(parents=True, exist_ok=True)
        for folder in (*new, kept, ready.parent):  # other users may read but not write, whatever the umask
            folder.chmod(0o755)
        with tempfile.TemporaryDirectory(dir=kept, prefix=".making-") as staging:
            made = Path(staging, "made")
            made.mkdir()
            _make_warm_start(
                replace(toolchain, placeholders={**toolchain.placeholders, "warm": str(made)}), Path(staging)
            )
            for folder, _, names in os.walk(made):
                for name in (".", *names):
                    path = Path(folder, name)
                    path.chmod(0o755 if path.is_dir() else 0o644)
            others = sorted(ready.parent.iterdir(), key=lambda other: other.stat().st_mtime_ns)
            for other in others[:-_MAX_OTHER_TOOLCHAINS]:
                shutil.rmtree(other)
            made.rename(ready)
    return ready


def _make_warm_start(toolchain: Toolchain, scratch: Path) -> None:
    """Run the commands of the warm start as the variant's own commands, but without confinement."""
    variant = toolchain.variant
    assert variant.warm is not None
    source = f"code{toolchain.recipe.extensions[0]}"
    paths = StepPaths(f"{scratch}/{source}", f"{scratch}/{variant.output}", str(scratch), GIB)
    for name, text in {source: variant.warm.program, **variant.files, **variant.warm.files}.items():
        (scratch / name).write_text(text, encoding="utf-8")
    (scratch / "tmp").mkdir()
    variables = {**toolchain.environment, **variant.environment}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch / "tmp"), "LANG": "C.UTF-8", "PATH": os.defpath}
    failure = f"the warm start of {toolchain.recipe.title} cannot be made"
    for words in variant.warm.commands:
        step = ProgramStep(words=words, variables=variables, known=toolchain.placeholders)
        command, environment = step.fill_in(paths)
        try:
            done = subprocess.run(  # noqa: S603 - a recipe's command, with a recipe's program
                command,
                env={**own, **environment},
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"{failure}: {error}") from error
        if done.returncode:
            output = done.stdout[-_MAX_QUOTED_CHARS:].decode(errors="replace").strip()
            raise EngineError(f"{failure}: {output}")
