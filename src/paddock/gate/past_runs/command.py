"""Write the command line that repeats a run, from what its record has."""

import shlex
from typing import NamedTuple

from paddock.gate.past_runs.describe import PastRun, read_number, read_text, read_texts

FILE = "FILE"
"""Stands for the file with the program, whose text the record does not have."""


class _Option(str):
    """An option that this module wrote. Any other word with a dash is refused."""

    __slots__ = ()


class RerunCommand(NamedTuple):
    """A command line that repeats a run."""

    text: str
    """Empty if no command can repeat it."""
    missing: tuple[str, ...]
    """What the record does not have, and the command therefore leaves out or names by a placeholder."""


def write_command(past: PastRun, actor: str) -> RerunCommand:
    """Return the command that repeats a run; `actor` is that of the person's own runs at the command line."""
    facts, missing = past.facts, list[str]()
    name = read_text(facts, "name")
    match past.run.kind:
        case "runtime":
            words = _write_program(past, missing)
        case "guest":
            words = _write_script(past, actor, missing)
        case "server" if not read_text(facts, "method"):
            server, _, tool = name.rpartition("/")
            words = ["paddock", "servers", "call", server, tool]
            if read_number(facts, "bytes_in") > len("{}"):
                words += [_Option("--args"), "@arguments.json"]
                missing.append("the arguments: write them to arguments.json")
        case "tool":
            words = ["paddock", "tool", "run", name]
            if read_number(facts, "bytes_in") > len("{}"):
                words += [_Option("--input"), "@inputs.json"]
                missing.append("the inputs: write them to inputs.json")
        case "replay" if repeats := read_text(facts, "repeats"):
            words = [
                "paddock",
                "replay",
                repeats,
                _Option("--against"),
                read_text(facts, "against") or "recorded",
            ]
        case "changes":
            words = ["paddock", "changes", read_text(facts, "action"), read_text(facts, "changes")]
        case _:
            return RerunCommand("", ("no command runs this kind of work",))
    # A program or a client may have chosen a name that is an option, or hides characters from who copies it.
    if not all(
        isinstance(word, _Option) or (word.isprintable() and word[:1] not in {"", "-"}) for word in words
    ):
        return RerunCommand("", ("the record has names that are not safe on a command line",))
    return RerunCommand(shlex.join(words), tuple(missing))


def _write_program(past: PastRun, missing: list[str]) -> list[str]:
    facts = past.facts
    words = ["paddock", "exec", read_text(facts, "name")]
    if file := read_text(facts, "file"):
        words.append(f"./{file}")
    else:
        words.append(FILE)
        missing.append(f"the program: {FILE} stands for a file with its text")
    for option in ("executable", "cwd", "access"):
        if (value := read_text(facts, option)) and value != ".":
            words += [_Option(f"--{option}"), value]
    hosts = ",".join(read_texts(facts, "hosts"))
    network = hosts or read_text(facts, "network")
    words += [_Option("--network"), network] if network not in {"", "none"} else []
    for package in read_texts(facts, "requirements"):
        words += [_Option("--package"), package]
    for variable in read_text(facts, "variables").split():
        words += [_Option("--env"), f"{variable}=VALUE"]
        missing.append(f"the value of the variable {variable}")
    if count := int(read_number(facts, "argument_count")):
        missing.append(f"its arguments ({count}): write them after --")
    if count := int(read_number(facts, "file_count")):
        missing.append(f"its input files ({count}): name them with --file-in")
    if directories := read_texts(facts, "directories"):
        missing.append(
            f"directories beside the workspace: name them with --add-dir ({', '.join(directories)})"
        )
    if session := read_text(facts, "session"):
        missing.append(f"what ran before it in the session {session}")
    missing += ["standard input, if it had any", "limits that its caller asked for"]
    return words


def _write_script(past: PastRun, actor: str, missing: list[str]) -> list[str]:
    facts = past.facts
    if past.run.is_recorded:
        owner = [_Option("--actor"), past.run.actor] if past.run.actor != actor else []
        return ["paddock", "replay", past.run.id, *owner]
    profile, name = read_text(facts, "profile"), read_text(facts, "name")
    if profile == "compute":
        missing.append("the request: its program and its input, as JSON on standard input")
        return ["paddock", "compute"]
    if profile == "script" and name:
        words = ["paddock", "run", name]
    else:
        words = ["paddock", "run", FILE]
        missing.append(f"the program: {FILE} stands for a file with its text")
    if session := read_text(facts, "session"):
        missing.append(f"what ran before it in the session {session}")
    missing += ["its input and variables, if it had any", "limits that its caller asked for"]
    return [*words, *([_Option("--jit")] if facts.get("jit") is True else [])]
