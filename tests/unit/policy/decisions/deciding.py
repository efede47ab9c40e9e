"""Decisions of one request under given settings."""

from paddock.gate.work import KINDS, kind_of
from paddock.model.approval import Answer, Question
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest
from paddock.policy.decisions import question_texts
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.kinds import FindExecutables, empty_catalogue
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import Settings


def decide(
    request: ExecutionRequest, settings: Settings, catalogue: FindExecutables = empty_catalogue
) -> Decision:
    return Policy(settings, KINDS, catalogue).decide(request)


def refuse_allowed(request: ExecutionRequest, decision: Decision, rule: str, reason: str) -> Decision:
    return Policy(Settings(), KINDS).refuse_allowed(request, decision, rule, reason)


def apply_answer(request: ExecutionRequest, decision: Decision, answer: Answer) -> Decision:
    return Policy(Settings(), KINDS).apply_answer(request, decision, answer)


def make_question(
    request: ExecutionRequest, decision: Decision, outgoing: OutgoingRedaction, *, wait_ms: int
) -> Question:
    subject = kind_of(request).make_subject(request, request.work)
    return question_texts.make_question(request, decision, subject, outgoing, wait_ms=wait_ms)


def hash_request(request: ExecutionRequest) -> str:
    return question_texts.hash_request(request, kind_of(request).hash_fields(request.work))
