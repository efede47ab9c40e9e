"""Questions that wait for a person, as rows that all replicas share: asked on one machine, answered on any.

    asker      inserts the row, and deletes it when it has read an answer, or the wait ends: follows announced answers,
               and polls
    answerer   reads the row, shows it, and sets `verdict` where it is null and `sha256` is that of what it showed;
               then it waits until the asker has deleted the row, or its lease has ended

A user of the database is not trusted with what a person sees: the asker keeps its question in memory, and
accepts an answer only if it repeats the hash of that question. With `cluster.key_file`, answers also have a seal.

A question waits while the lease of its node lasts. Times are those of the database.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from pydantic import ValidationError

from paddock.cluster.database import STATEMENT_S, Database
from paddock.cluster.listener import ANSWERS, Announcements, Listener
from paddock.cluster.node import ClusterNode
from paddock.cluster.seals import Seals, open_seals
from paddock.cluster.status import LEASE_S
from paddock.foundation.cancellation import run_shielded
from paddock.model.approval import Answer, Question, Verdict, WaitingQuestion
from paddock.model.errors import ApprovalError, AskerEnded, PaddockError, StoreUnavailable
from paddock.model.ids import is_id
from paddock.model.printable import make_printable
from paddock.policy.settings.cluster import ClusterSettings

MAX_BODY_BYTES = 256 * 1024
"""Maximum size of one question, in bytes."""
MAX_LISTED_QUESTIONS = 1000
"""Maximum number of questions in a list."""
MAX_NAME_CHARS = 200
"""Maximum length of the name of the person who answered, in characters."""
POLL_S = 1.0
"""Time between two looks for answers, in seconds. A notification comes earlier, except through some poolers."""
_MIN_PAUSE_S = 0.01
"""Minimum time between two looks, in seconds, however often something is announced."""
TAKEN_S = LEASE_S + 5.0
"""Maximum time until the asker takes an answer, in seconds: by then its lease is renewed or over."""
_TAKEN_PAUSES_S = (0.02, 0.5)
"""Shortest and longest time between two looks whether an answer was taken, in seconds."""
LOCAL = ""
"""Tenant of questions of clients on a machine itself. Only a person at a terminal sees them."""

_VERDICTS: frozenset[Verdict] = frozenset({"once", "run", "denied"})
_PURPOSE = "answer"
_ALIVE = (
    "exists (select from node where node.id = question.node and node.boot = question.boot "
    "and node.state <> 'ended' and node.seen > now() - make_interval(secs => %s))"
)
_WAITS = f"expires > now() and {_ALIVE}"
_SELECT = (
    f"select left(id, 50), left(tenant, 200), left(body::text, {2 * MAX_BODY_BYTES}), "
    "substring(sha256, 1, 33), "
    "extract(epoch from least(expires, now() + interval '1 year') - now())::float8 from question"
)
_ANSWER = (
    "with answered as (update question set verdict = %s, by = %s, seal = %s, answered = now() "
    "where id = %s and sha256 = %s and verdict is null"
)
_TELL = "returning id, node, boot) select node, boot, pg_notify(%s, id) from answered"
_IS_TAKEN = (
    "select not exists (select from question where id = %s), exists (select from node where id = %s and boot = %s "
    "and state <> 'ended' and seen > now() - make_interval(secs => %s))"
)
_WITHDRAW = f"delete from question where id = %s and not {_ALIVE} returning id"
_log = logging.getLogger("paddock.cluster")


class _Filter(NamedTuple):
    """Which questions a view has."""

    condition: str
    values: tuple[str, ...] = ()


class SharedQuestions:
    """All questions in a database. One object for each process: it looks for all of its answers at once."""

    def __init__(
        self,
        database: Database,
        node: ClusterNode | None,
        seals: Seals,
        *,
        answers: Announcements | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        """Ask as `node`, whose lease must last; without it, questions can only be listed and answered.

        `answers` are announced answers. Without them, an answer is found within `poll_s` seconds.
        """
        self._answers = answers
        self._poll_s = poll_s
        self.database = database
        self.node = node
        self.seals = seals
        self._waiting: dict[str, asyncio.Future[tuple[Any, ...] | None]] = {}
        """The questions of this process that wait, by id: a row with an answer; None for one that is gone."""
        self._watching: asyncio.Task[None] | None = None

    def of_actor(self, actor: str) -> "QuestionView":
        """Return the questions of one user; of the clients of this machine for `LOCAL`."""
        return QuestionView(self, actor, _Filter("tenant = %s", (actor,)))

    def of_others(self, actor: str) -> "QuestionView":
        """Return the questions of all users except one."""
        return QuestionView(self, actor, _Filter("tenant not in (%s, %s)", (actor, LOCAL)))

    def of_everybody(self) -> "QuestionView":
        """Return all questions, for a person at a terminal."""
        return QuestionView(self, LOCAL, _Filter("true"))

    async def remove_abandoned(self) -> None:
        """Remove the questions that no process waits for any more. A problem is logged."""
        try:
            await self.delete_abandoned()
        except PaddockError as error:
            _log.warning("abandoned questions are not removed: %s", error)

    async def delete_abandoned(self) -> None:
        """Delete the rows of ended processes. Raises StoreUnavailable."""
        await self.fetch(
            f"delete from question where expires < now() or not {_ALIVE}",
            (LEASE_S,),
        )

    async def wait_for_row(self, id_: str) -> tuple[Any, ...] | None:
        """Return the answered row of a question of this process when there is one; None if the row is gone."""
        future: asyncio.Future[tuple[Any, ...] | None] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = future
        try:
            watching = self._watching
            if watching is None or watching.done() or watching.cancelling():
                self._watching = asyncio.create_task(self._watch())
            else:
                await self._try_to_look()  # the answer may have been announced before
            return await future
        finally:
            del self._waiting[id_]
            if self._watching is not None and not self._waiting:
                self._watching.cancel()

    async def fetch(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Return all rows of one statement. Raises StoreUnavailable, also after `STATEMENT_S`."""
        return await self.database.fetch(query, values, timeout_s=STATEMENT_S)

    async def _watch(self) -> None:
        """Look for answers when one is announced, and every `poll_s`; also while the database is away."""
        while True:
            try:
                if self._answers is None:
                    await self._try_to_look()
                    await asyncio.sleep(self._poll_s)
                else:
                    await self._answers.read(self._try_to_look)
                    await self._answers.wait(self._poll_s)
            except Exception as error:  # noqa: BLE001 - the waiting requests get the error, and count as denied
                for future in self._waiting.values():
                    if not future.done():
                        future.set_exception(ApprovalError(f"the answer cannot be read: {error}"))
                return
            await asyncio.sleep(_MIN_PAUSE_S)

    async def _try_to_look(self) -> None:
        """Look for answers once; a database that is away is tried again later."""
        try:
            await self._look_for_answers()
        except StoreUnavailable as error:
            _log.debug("answers cannot be read just now: %s", error)

    async def _look_for_answers(self) -> None:
        ids = [*self._waiting]
        rows = await self.fetch(
            "select id, substring(sha256, 1, 33), left(verdict, 10), left(by, %s), substring(seal, 1, 33) "
            "from question where id = any(%s)",
            (MAX_NAME_CHARS + 1, ids),
        )
        found = {row[0]: row for row in rows}
        for id_ in ids:
            future = self._waiting.get(id_)
            row = found.get(id_)
            if future is not None and not future.done() and (row is None or row[2] is not None):
                future.set_result(row)


class QuestionView:
    """Some of the questions in a database, and one user who may ask; see `paddock.gate.questions.Questions`."""

    def __init__(self, shared: SharedQuestions, tenant: str, chosen: _Filter) -> None:
        self._shared = shared
        self._tenant = tenant
        self._chosen = chosen

    @asynccontextmanager
    async def keep_question(self, question: Question) -> AsyncGenerator[None]:
        """Keep a question during the context. Raises ApprovalError."""
        node = self._shared.node
        assert node is not None, "this process has no lease"
        body = _encode(question)
        if len(body) > MAX_BODY_BYTES:
            raise ApprovalError(f"{question.id} exceeds the limit of {MAX_BODY_BYTES} bytes")
        values = (question.id, self._tenant, question.run, _hash(body), node.id, node.boot, body.decode())
        try:
            await self._shared.fetch(
                "insert into question (id, tenant, run, sha256, node, boot, body, expires) "
                "values (%s, %s, %s, %s, %s, %s, %s::jsonb, now() + make_interval(secs => %s))",
                (*values, question.wait_ms / 1000),
            )
        except StoreUnavailable as error:
            raise ApprovalError(str(error)) from None
        try:
            yield
        finally:
            # An answer that was not read stays: who gave it waits until it is taken.
            await run_shielded(self._remove(question.id, "verdict is null"))

    async def wait_for_answer(self, question: Question) -> Answer:
        """Wait for the answer to a kept question. Raises ApprovalError if the answer belongs to another question."""
        row = await self._shared.wait_for_row(question.id)
        if row is None:
            raise ApprovalError(
                f"{question.id} no longer waits: the lease of this node ended, or its row was removed"
            )
        await run_shielded(self._remove(question.id, "verdict is not null"))
        _, sha256, verdict, by, seal = row
        shown = _hash(_encode(question))
        if sha256 != shown or not self._shared.seals.accepts(
            seal, _PURPOSE, question.id, shown.hex(), str(verdict), str(by)
        ):
            raise ApprovalError(f"the answer does not belong to {question.id}")
        if verdict not in _VERDICTS or not by or len(by) > MAX_NAME_CHARS:
            raise ApprovalError(f"the row of {question.id} does not contain an answer")
        if by == question.actor:
            raise ApprovalError(_own_question_text(question))
        return Answer(verdict=verdict, by=make_printable(by))

    async def list_waiting(self) -> list[WaitingQuestion]:
        """Return the waiting questions, oldest first; at most `MAX_LISTED_QUESTIONS`. Raises StoreUnavailable."""
        rows = await self._shared.fetch(
            f"{_SELECT} where {self._chosen.condition} and verdict is null and {_WAITS} order by id limit %s",
            (*self._chosen.values, LEASE_S, MAX_LISTED_QUESTIONS),
        )
        return [waiting for row in rows if (waiting := _read_row(row)) is not None]

    async def find_question(self, id_: str) -> WaitingQuestion:
        """Return the question with an id. Raises ApprovalError and StoreUnavailable."""
        if not is_id(id_):
            raise ApprovalError(
                f"{id_[:50]!r} is not the id of a question; `paddock approve` lists the waiting questions"
            )
        rows = await self._shared.fetch(
            f"{_SELECT} where id = %s and {self._chosen.condition} and {_WAITS}",
            (id_, *self._chosen.values, LEASE_S),
        )
        waiting = _read_row(rows[0]) if rows else None
        if waiting is None:
            raise await self._explain_absence(id_)
        return waiting

    async def give_answer(
        self, waiting: WaitingQuestion, verdict: Verdict, by: str, *, at_terminal: bool = False
    ) -> None:
        """Answer a question, and wait until its asker takes the answer; see `AnswerableQuestions`.

        Raises ApprovalError, AskerEnded and StoreUnavailable.
        """
        question = waiting.question
        if by == question.actor and not at_terminal:
            raise ApprovalError(_own_question_text(question))
        shown = _hash(_encode(question))
        seal = self._shared.seals.seal(_PURPOSE, question.id, shown.hex(), verdict, by)
        told = await self._shared.fetch(
            f"{_ANSWER} and {self._chosen.condition} and {_WAITS} {_TELL}",
            (verdict, by, seal, question.id, shown, *self._chosen.values, LEASE_S, ANSWERS),
        )
        if not told:
            raise await self._explain_absence(question.id)
        [(node, boot, _)] = told
        await self._wait_until_taken(question.id, node, boot)

    async def _wait_until_taken(self, id_: str, node: str, boot: str) -> None:
        """Wait until the asker has deleted the row of an answer. Raises ApprovalError and StoreUnavailable."""
        loop = asyncio.get_running_loop()
        until, (pause, max_pause) = loop.time() + TAKEN_S, _TAKEN_PAUSES_S
        while loop.time() < until:
            [(taken, lives)] = await self._shared.fetch(_IS_TAKEN, (id_, node, boot, LEASE_S))
            if taken and lives:
                return
            if taken:
                raise AskerEnded(f"{_explain_end(id_)}; whether it took the answer is not known")
            if not lives and await self._shared.fetch(_WITHDRAW, (id_, LEASE_S)):
                raise AskerEnded(f"{_explain_end(id_)}; the answer was withdrawn, and nothing was allowed")
            await asyncio.sleep(pause)
            pause = min(2 * pause, max_pause)
        raise ApprovalError(f"the answer to {id_} is stored, and the replica that asked has not taken it yet")

    async def _explain_absence(self, id_: str) -> ApprovalError:
        """Return why a question does not wait for an answer. Raises StoreUnavailable."""
        rows = await self._shared.fetch(
            f"select verdict is not null, expires > now(), {_ALIVE} from question "
            f"where id = %s and {self._chosen.condition}",
            (LEASE_S, id_, *self._chosen.values),
        )
        match rows:
            case [(_, True, False)]:
                return AskerEnded(_explain_end(id_))
            case [(True, True, True)]:
                return ApprovalError(f"{id_} already has an answer; the first answer counts")
            case _:
                return ApprovalError(_not_waiting_text(id_))

    async def remove_abandoned(self) -> None:
        """Remove the questions of processes that have ended. Raises ApprovalError."""
        try:
            await self._shared.delete_abandoned()
        except StoreUnavailable as error:
            raise ApprovalError(str(error)) from None

    async def _remove(self, id_: str, condition: str) -> None:
        """Delete the row of a question. Without the database it stays until its lease is over."""
        try:
            await self._shared.fetch(f"delete from question where id = %s and {condition}", (id_,))
        except StoreUnavailable as error:
            _log.warning("the question %s is not removed: %s", id_, error)


def open_questions(
    settings: ClusterSettings, database: Database, node: ClusterNode, listener: Listener
) -> SharedQuestions:
    """Return the questions of a database for a server. Raises ConfigurationError if its keys cannot be read."""
    return SharedQuestions(database, node, open_seals(settings), answers=listener.follow(ANSWERS))


def _encode(question: Question) -> bytes:
    """Return a question as it is kept and hashed: spelled out, so that all machines show and hash the same."""
    return question.spell_out(MAX_BODY_BYTES).model_dump_json().encode()


def _hash(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _read_row(row: tuple[Any, ...]) -> WaitingQuestion | None:
    """Return the question of a row; None unless the row is one that an asker wrote, for its own user."""
    id_, tenant, text, sha256, left_s = row
    try:
        question = Question.model_validate_json(text).spell_out(MAX_BODY_BYTES)
    except ValidationError:
        question = None
    if (
        question is None
        or question.id != id_
        or not is_id(id_)
        or _hash(_encode(question)) != sha256
        or tenant not in (LOCAL, question.actor)
    ):
        _log.warning("the row of the question %s was damaged or changed", make_printable(str(id_), 50))
        return None
    left_ms = min(left_s * 1000, question.wait_ms)  # the second one may be too large for a fraction
    return WaitingQuestion(question=question, expires=time.time() + left_ms / 1000)


def _own_question_text(question: Question) -> str:
    return f"{question.id} is a question of {question.actor}, which cannot answer its own questions"


def _explain_end(id_: str) -> str:
    return f"{id_} waits no longer: the replica that asked has ended"


def _not_waiting_text(id_: str) -> str:
    return f"{id_} does not wait for an answer; `paddock approve` lists the waiting questions"
