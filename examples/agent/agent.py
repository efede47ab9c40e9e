"""An agent that acts by writing programs: question, program, outcome, and again until it knows the answer.

The model is a script, so that this runs anywhere; everything else is real. The first program has a mistake. What the
agent is told of it is what makes the second one right.

    python agent.py [SERVERS_FILE]
"""

import sys
from pathlib import Path

from paddock import BlockingPaddock, Outcome

QUESTION = "It is noon in London on a winter's day. Where can I still call an office: Tokyo, Nairobi or Lima?"
REPLIES = (
    """```ts
const { target } = await servers.time.convert_time({ from: "Europe/London", time: "12:00", to: "Asia/Tokyo" });
return target;
```""",
    """```ts
const zones = ["Asia/Tokyo", "Africa/Nairobi", "America/Lima"];
const hours = await Promise.all(zones.map(async (zone) => {
  const { target } = await servers.time.convert_time({
    source_timezone: "Etc/GMT", time: "12:00", target_timezone: zone,
  });
  return new Date(target.datetime.slice(0, 19) + "Z").getUTCHours();
}));
return zones.filter((_, n) => hours[n] >= 9 && hours[n] < 17);
```""",
    "Nairobi: it is afternoon there. In Tokyo it is evening, in Lima early morning.",
)


class ScriptedModel:
    """Says what stands in REPLIES, but no answer after a failure; a language model has the same method."""

    def __init__(self) -> None:
        self._replies = iter(REPLIES)

    def reply(self, conversation: list[str]) -> str:
        """Return what the model says next."""
        said = next(self._replies)
        knows = program_in(said) is not None or conversation[-1].startswith("ok")
        return said if knows else "I could not find out."


def main(servers: Path) -> None:
    """Talk until the model answers without a program."""
    model, conversation = ScriptedModel(), [QUESTION]
    with BlockingPaddock(overrides={"servers.config": str(servers)}, actor="example agent") as paddock:
        while (program := program_in(reply := model.reply(conversation))) is not None:
            told = report(paddock.execute(program, timeout_ms=60_000))
            conversation += [reply, told]
            print(f"{program}\n-> {told}\n")
    print(reply)


def program_in(reply: str) -> str | None:
    """Return the program that a reply holds; None for an answer."""
    return reply.removeprefix("```ts\n").removesuffix("\n```") if reply.startswith("```ts") else None


def report(outcome: Outcome) -> str:
    """Return what a model should hear of an outcome: the value, or the error in its own program's lines."""
    if outcome.error is None:
        return f"{outcome.status}: {outcome.value}"
    return f"{outcome.status}, line {outcome.error.line}: {outcome.error.message}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("mcp.json"))
