"""`paddock approve`: answer the questions of agents whose client cannot ask."""

import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.printable import make_printable
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table
from paddock.surfaces.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from paddock.gate.questions import AnswerableQuestions
    from paddock.model.approval import Question, Verdict, WaitingQuestion
    from paddock.policy.settings.schema import Settings

NO_TERMINAL = "only a person can approve: run this on a terminal; `--deny` works without one"
_MAX_ARGUMENTS_CHARS = 100
"""Maximum length of the arguments in the list, in characters."""


@click.command(
    "approve",
    epilog=render_examples(
        "paddock approve",
        "paddock approve 01JD3W0ZV6N4YQ1R2X5T7B8C9D",
        "paddock approve 01JD3W0ZV6N4YQ1R2X5T7B8C9D --run",
        "paddock approve 01JD3W0ZV6N4YQ1R2X5T7B8C9D --deny",
    ),
)
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="List all questions.")
@options.limit
@click.option(
    "--run", "whole_run", is_flag=True, help="Let a yes hold for all calls of this tool in the run."
)
@click.option("--deny", is_flag=True, help="Refuse without showing the question.")
@options.workspace
@options.settings
@options.as_json
def command(
    id_: str | None,
    *,
    everything: bool,
    limit: int | None,
    whole_run: bool,
    deny: bool,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """List the questions that wait for a person, or answer one.

    Agents wait if their client cannot ask, and so do the users of a server; with `cluster.url`, on all machines. With
    an ID the command shows the question and asks on this terminal. This command can say yes only on a terminal.
    """
    if whole_run and deny:
        raise click.UsageError("--run approves and --deny refuses; leave one of them out.")
    if id_ is not None and (everything or limit):
        raise click.UsageError("--all and --limit apply to the list, not to an ID.")
    if id_ is None and (whole_run or deny):
        raise click.UsageError("Give an ID from the list that `paddock approve` prints.")
    settings = load(workspace, flags=flags).settings
    if id_ is None:

        async def list_waiting() -> "list[WaitingQuestion]":
            async with open_questions(settings) as questions:
                return await questions.list_waiting()

        found = run_until_signal(list_waiting())
        newest = found[-(options.choose_limit(limit, everything=everything) or len(found)) :]
        options.report_hidden(len(newest), len(found) - len(newest))
        _print_waiting(newest, as_json=as_json)
        return
    # With a shared database, the record also names the machine at which a person answers.
    by = find_actor() if settings.cluster.url is None else f"{find_actor()}@{settings.cluster.node}"

    async def answer() -> "tuple[WaitingQuestion, Verdict]":
        async with open_questions(settings) as questions:
            waiting = await questions.find_question(id_)
            verdict = "denied" if deny else await _ask_verdict(waiting.question, whole_run=whole_run)
            await questions.give_answer(waiting, verdict, f"{by} (paddock approve)", at_terminal=True)
            return waiting, verdict

    waiting, verdict = run_until_signal(answer())
    if as_json:
        print_json({"id": id_, "verdict": verdict, "by": by})
    else:
        click.echo(f"{waiting.question.what}: {_VERDICT_TEXTS[verdict]}")


@asynccontextmanager
async def open_questions(settings: "Settings") -> "AsyncGenerator[AnswerableQuestions]":
    """Yield the questions of clients on this machine and of all users of a server; or those of all machines."""
    if settings.cluster.url is not None:
        from paddock.cluster.database import Database
        from paddock.cluster.migrate import check_tables
        from paddock.cluster.questions import SharedQuestions
        from paddock.cluster.seals import open_seals

        async with Database(settings.cluster.url, name="paddock approve") as database:
            await check_tables(database)
            yield SharedQuestions(database, None, open_seals(settings.cluster)).of_everybody()
        return
    from paddock.gate.question_directory import QuestionDirectory
    from paddock.gate.questions import FileQuestions
    from paddock.surfaces.tenants.question_directories import ManyQuestions, QuestionDirectories

    own = FileQuestions(QuestionDirectory(settings.approvals.directory))
    yield ManyQuestions(QuestionDirectories(settings.serve.directory).list_all, own)


async def _ask_verdict(question: "Question", *, whole_run: bool) -> "Verdict":
    if whole_run:
        if "run" not in question.scopes:
            raise CommandFailure(f"{question.id} can only be approved once; leave out --run")
        question = question.model_copy(update={"scopes": ("run",)})
    answer = await Terminal().ask(question)
    if answer.verdict == "unasked":
        raise CommandFailure(NO_TERMINAL)
    return answer.verdict


def _print_waiting(found: "list[WaitingQuestion]", *, as_json: bool) -> None:
    now = time.time()
    if as_json:
        print_json(
            [
                {**each.question.model_dump(mode="json"), "expires_ms": round((each.expires - now) * 1000)}
                for each in found
            ]
        )
        return
    rows = [
        (
            each.question.id,
            each.question.what,
            make_printable(summarize_arguments(each.question), _MAX_ARGUMENTS_CHARS),
            each.question.actor,
            f"{each.expires - now:.0f} s",
        )
        for each in found
    ]
    print_table(("id", "asks to", "with", "for", "waits"), rows, empty="no request waits for a person")


def summarize_arguments(question: "Question") -> str:
    """Return the arguments on one line: of a difference only the first line, which counts the paths."""
    arguments = question.read_arguments()
    if arguments is None or not arguments.difference:
        return question.details
    return f"{arguments.write()}: {arguments.difference[0]}"


_VERDICT_TEXTS: "dict[Verdict, str]" = {
    "once": "allowed, this once",
    "run": "allowed, and all such calls of this run",
    "denied": "denied",
}
