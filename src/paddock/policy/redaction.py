"""Remove secrets from the output of programs while it arrives, in pieces of any size.

Theory of operation. Redaction works line by line: no rule sees beyond the end of a line, so what comes out depends on
the text alone and never on how it was cut into pieces. A line is held back until it is whole; frames of a progress
line, each of which a carriage return ends, are passed on where no rule could change them. One of unusual length is
redacted in windows that overlap; a window ends only where cutting it changes nothing, and where no such place is
found, the rest of the line is withheld. So memory is bounded, and any secret of up to `OVERLAP` characters is found
wherever it stands. Private keys are the one secret of several lines: their lines are replaced one by one, so that
the lines of the output keep their numbers.

What is a secret: the defaults of spec 5.7 (S43), everything that `redact_text` knows, private keys in PEM
(RFC 7468), and the patterns of the settings.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from paddock.model.settings import RedactionPattern, RedactionSettings
from paddock.policy.known import KnownSecrets
from paddock.policy.redact import redact_lines, redact_text

LONGEST = 64 * 1024
"""Characters of a line that are looked at together."""
OVERLAP = 16 * 1024
"""Characters at the end of a window that the next one sees again; no shorter secret is missed."""

PRIVATE_KEY = "[REDACTED:private-key]"
WITHHELD = "[REDACTED:rest of line]"

_STEP = 12 * 1024
"""Between places where a window may be cut: few, for every try redacts the window once more."""

_AWS = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{16,32}")
_GITHUB = re.compile(r"ghp_[A-Za-z0-9]{36}")
_ASSIGNED = r"(?:password|secret|token|api_key|api-key|apikey)[^\S\n]*+[=:][^\S\n]*+\S++"
_SECRET, _SECRET_IN_LOWER_CASE = re.compile(_ASSIGNED, re.IGNORECASE), re.compile(_ASSIGNED)
_KEY_BEGINS = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:.*?-----END [A-Z ]{0,40}PRIVATE KEY-----|.*+)"
)
_KEY_GOES_ON = re.compile(r"\s*+(?:[A-Za-z0-9+/=]*+|(?:Proc-Type|DEK-Info|Comment): .*+)\s*+")
_KEY_ENDS = "-----END "
KEY_SIGN = "PRIVATE KEY-----"

_SIGNS = (
    *(
        "password",
        "secret",
        "token",
        "apikey",
        "api_key",
        "api-key",
        "authorization",
        "private",
        "credential",
    ),
    *("eyj", "sk-", "ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "xox", "akia", "asia"),
    # What else matches an i, k or s when case is ignored.
    *("i\u0307", "\u0131", "\u017f"),
)
"""Every default rule needs one of these, in a text in lower case."""

Rule = Callable[[str], str]


class Redactor:
    """The rules in force. `warnings` says which patterns of the settings are not used, and why."""

    def __init__(self, settings: RedactionSettings, secrets: KnownSecrets | None = None) -> None:
        self._secrets = KnownSecrets() if secrets is None else secrets
        self._enabled = settings.enabled
        self._defaults = settings.enabled and settings.include_defaults
        self._custom: list[Rule] = []
        self.warnings: tuple[str, ...] = ()
        if settings.enabled and settings.patterns:
            self._custom, self.warnings = compiled(settings.patterns)

    @property
    def active(self) -> bool:
        """Whether there is anything to look for: settings switch rules off, and no secret that was handed out."""
        return self._enabled or bool(self._secrets)

    def text(self, text: str) -> str:
        """Return a whole text without its secrets."""
        stream = StreamRedactor(self)
        return (stream.feed(text.encode("utf-8", "surrogatepass")) + stream.end()).decode(
            "utf-8", "surrogatepass"
        )

    def line(self, line: str) -> str:
        """Return one line, or a part of one, without its secrets; known ones first, for rules see parts of them."""
        line = self._secrets.hide(line)
        if self._defaults and may_hold_secrets(line):
            line = redact_text(_KEY_BEGINS.sub(PRIVATE_KEY, _without_defaults(line)))
        for rule in self._custom:
            line = rule(line)
        return line

    def lines(self, text: str) -> str:
        """Return some lines as `line` would, one by one; none may hold a part of a private key."""
        if self._custom or not self._defaults:
            return "\n".join(map(self.line, text.split("\n")))
        return redact_lines(_without_defaults(self._secrets.hide(text)))

    def opens_key(self, line: str) -> bool:
        """Tell whether a private key begins in a line and does not end there."""
        if not self._defaults or KEY_SIGN not in line:
            return False
        return any(_KEY_ENDS not in found[0] for found in _KEY_BEGINS.finditer(line))

    def leaves_alone(self, text: str) -> bool:
        """Tell, quickly, that no rule changes any line of a text. False is no more than a guess."""
        return not (self._custom or self._secrets or (self._defaults and may_hold_secrets(text)))


class StreamRedactor:
    """One stream of bytes, redacted. Bytes that are not UTF-8 pass through as they are."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._pieces: list[str] = []
        self._held = 0
        self._withholding = False
        self._in_key = False
        self._holds_frames = False
        """Whether a frame of the current line may hold a secret: then the rest of the line is held back, too."""

    def feed(self, data: bytes) -> bytes:
        """Take the next piece and return what is certain by now."""
        if not self._redactor.active:
            return data
        return self._take(self._decoder.decode(data))

    def end(self) -> bytes:
        """Return what was held back."""
        out = self._take(self._decoder.decode(b"", final=True))
        last = self._end_of_line() if self._held else ""
        return out + last.encode("utf-8", "surrogateescape")

    def _take(self, text: str) -> bytes:
        done: list[str] = []
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._holds_frames = False
            whole = self._released() + whole + newline
            ordinary = not (self._withholding or self._in_key) and self._redactor.leaves_alone(whole)
            done.append(whole if ordinary else self._lines(whole))
        self._hold(rest, done)
        if "\r" in rest:
            self._release_frames(done)
        return "".join(done).encode("utf-8", "surrogateescape")

    def _lines(self, text: str) -> str:
        lines = text[:-1].split("\n")
        special = self._withholding or self._in_key or KEY_SIGN in text
        if not special and max(map(len, lines)) < LONGEST:
            return self._redactor.lines(text)
        done: list[str] = []
        for line in lines:
            self._hold(line, done)
            done.append(self._end_of_line())
            done.append("\n")
        return "".join(done)

    def _release_frames(self, done: list[str]) -> None:
        """Let go of what is before the last carriage return: no default rule matches across one before its sign."""
        if self._holds_frames or self._withholding or self._in_key:
            return
        frames, end, frame = self._released().rpartition("\r")
        self._holds_frames = not self._redactor.leaves_alone(frames)
        if self._holds_frames:
            frame = frames + end + frame
        else:
            done.append(frames + end)
        self._pieces, self._held = [frame], len(frame)

    def _hold(self, text: str, done: list[str]) -> None:
        """Add to the current line; a window's worth of it is redacted at once."""
        if self._withholding or not text:
            return
        self._pieces.append(text)
        self._held += len(text)
        if self._held < LONGEST:
            return
        line = self._released()
        while len(line) >= LONGEST and not self._withholding:
            window, further = line[:LONGEST], line[LONGEST:]
            cut, first = self._cut(window)
            if not cut:
                done.append(first + WITHHELD)
                self._withholding = True
                self._in_key = self._in_key or self._redactor.opens_key(window)
                return
            done.append(first)
            line = window[cut:] + further
        self._pieces, self._held = [line], len(line)

    def _cut(self, window: str) -> tuple[int, str]:
        """Return where a window can be cut so that redacting its parts is redacting the whole, and the redacted part.

        Where it cannot, that is 0, and all of it.
        """
        if self._redactor.leaves_alone(window):
            return LONGEST - OVERLAP, window[: LONGEST - OVERLAP]
        whole = self._redactor.line(window)
        for cut in range(LONGEST - OVERLAP, 0, -_STEP):
            first = self._redactor.line(window[:cut])
            if whole.startswith(first) and first + self._redactor.line(window[cut:]) == whole:
                return cut, first
        return 0, whole

    def _released(self) -> str:
        line = "".join(self._pieces)
        self._pieces, self._held = [], 0
        return line

    def _end_of_line(self) -> str:
        """Return the rest of the current line, redacted, without its end."""
        line, withheld = self._released(), self._withholding
        self._withholding = False
        if self._in_key:
            self._in_key = _KEY_ENDS not in line and _KEY_GOES_ON.fullmatch(line) is not None
            if self._in_key or _KEY_ENDS in line:
                return PRIVATE_KEY
        if not withheld and self._redactor.opens_key(line):
            self._in_key = True
        return self._redactor.line(line)


def may_hold_secrets(text: str) -> bool:
    """Tell whether a default rule may change a text; False is sure."""
    lower = text.lower()
    return any(map(lower.__contains__, _SIGNS))


def _without_defaults(text: str) -> str:
    """Return a text without what spec 5.7 calls a secret."""
    text = _GITHUB.sub("[REDACTED:github-token]", _AWS.sub("[REDACTED:aws-key]", text))
    if not text.isascii():
        return _SECRET.sub("[REDACTED:secret]", text)
    # Looking without regard to case takes ten times as long.
    return _replaced(text, _SECRET_IN_LOWER_CASE.finditer(text.lower()), "[REDACTED:secret]")


def _replaced(text: str, found: Iterable[re.Match[str]], mark: str) -> str:
    """Return a text with a mark in the place of each match; a match of nothing is none."""
    done: list[str] = []
    position = 0
    for match in found:
        start, end = match.span()
        if start < end:
            done += (text[position:start], mark)
            position = end
    return "".join((*done, text[position:])) if done else text


def compiled(patterns: Sequence[RedactionPattern]) -> tuple[list[Rule], tuple[str, ...]]:
    """Return the rules of patterns that RE2 takes, and what is wrong with the others (S43)."""
    import re2  # noqa: PLC0415 - only who has patterns of their own pays for it

    engine: Any = re2  # it comes without types
    options = engine.Options()
    options.log_errors = False
    rules: list[Rule] = []
    warnings: list[str] = []
    for pattern in patterns:
        flags = f"(?{pattern.flags})" if pattern.flags else ""
        try:
            compiled = engine.compile(flags + pattern.pattern, options)
        except engine.error as error:
            why: bytes | str = error.args[0]
            told = why.decode("utf-8", "replace") if isinstance(why, bytes) else why
            warnings.append(
                f"redaction.patterns: `{pattern.name}` is not used: {told}; write it in the syntax of RE2"
            )
            continue
        rules.append(_rule(compiled.finditer, f"[REDACTED:{pattern.name}]"))
    return rules, tuple(warnings)


def _rule(finditer: Callable[[str], Iterator[re.Match[str]]], mark: str) -> Rule:
    """Return the rule that replaces what is found by `mark`; nothing found is nothing replaced."""

    def rule(line: str) -> str:
        # RE2 reads UTF-8, which has no lone surrogates; `?` takes the place of each, so that offsets stay.
        seen = line if line.isascii() else line.encode("utf-8", "replace").decode()
        return _replaced(line, finditer(seen), mark)

    return rule
