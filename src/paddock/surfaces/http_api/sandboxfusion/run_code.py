"""Answer `/run_code`: one program, and how it ended."""

from paddock.surfaces.http_api.sandboxfusion.files import (
    FetchedFiles,
    PaddingError,
    check_fetched_paths,
    decode_files,
)
from paddock.surfaces.http_api.sandboxfusion.language_table import LANGUAGES, LanguageEntry
from paddock.surfaces.http_api.sandboxfusion.models import RunCodeRequest, RunCodeResponse
from paddock.surfaces.http_api.sandboxfusion.programs import make_limits, make_program
from paddock.surfaces.http_api.sandboxfusion.responses import (
    OVER_AT_ONCE,
    combine,
    render_missing_command,
    render_outcome,
)
from paddock.surfaces.http_api.sandboxfusion.running import PureRunner


async def run_code(body: RunCodeRequest, runner: PureRunner) -> RunCodeResponse:
    """Run the program of a request. Raises InvalidRequest, and Refused if nothing started."""
    paths = check_fetched_paths(body.fetch_files)
    try:
        files = decode_files(body.files)
    except PaddingError as error:
        return RunCodeResponse(status="SandboxError", message=f"a file is not base64: {error}")
    entry = LANGUAGES[body.language]
    if (answer := _answer_at_once(body, entry, runner)) is not None:
        return answer
    settings = runner.tenant.settings.runtimes
    work = make_program(body, entry, files, settings.network)
    fetched = FetchedFiles(paths, runner.hide_secrets)
    limits = make_limits(body)
    if (
        not entry.compiles
    ):  # SandboxFusion has no compile command either, so that `compile_timeout` has no effect
        limits = limits.replace(compile_timeout_ms=settings.timeout_ms)
    outcome, output = await runner.run(work, limits, on_workdir=fetched.read if paths else None)
    answer = render_outcome(outcome, entry, output, fetched.contents)
    if fetched.refusal is not None:
        raise fetched.refusal
    if body.run_timeout <= 0 and answer.run_result is not None and answer.compile_result is not None:
        return combine(answer.compile_result, OVER_AT_ONCE)
    return answer


def _answer_at_once(body: RunCodeRequest, entry: LanguageEntry, runner: PureRunner) -> RunCodeResponse | None:
    """Return the answer for a request of which nothing has to run; None for any other one."""
    if not entry.runtime:
        message = f"exception on running code: no command runs the language {body.language!r}"
        return RunCodeResponse(status="SandboxError", message=message)
    if entry.runtime not in runner.tenant.settings.runtimes.languages:
        reason = (
            f"this server has no language {entry.runtime}; [runtimes.recipes.{entry.runtime}] would add it"
        )
        return render_missing_command(entry, reason)
    if entry.compiles and body.compile_timeout <= 0:
        return combine(OVER_AT_ONCE, None)
    if not entry.compiles and body.run_timeout <= 0:
        return combine(None, OVER_AT_ONCE)
    return None
