"""An agent that writes programs: question, program, outcome, and again until it knows the answer.

A script replaces the model, so that the example runs anywhere. Everything else is real. The first program has a
mistake. The agent corrects it with the help of the error.

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
    """Returns REPLIES in order, but gives no answer after a failure. Replace it by a language model."""

    def __init__(self) -> None:
        self._replies = iter(REPLIES)

    def reply(self, conversation: list[str]) -> str:
        """Return the model's next reply."""
        said = next(self._replies)
        knows = program_in(said) is not None or conversation[-1].startswith("ok")
        return said if knows else "I could not find out."


def main(servers: Path) -> None:
    """Run the model's programs until it replies without one."""
    model, conversation = ScriptedModel(), [QUESTION]
    with BlockingPaddock(overrides={"servers.config": str(servers)}, actor="example agent") as paddock:
        while (program := program_in(reply := model.reply(conversation))) is not None:
            told = report(paddock.execute(program, timeout_ms=60_000))
            conversation += [reply, told]
            print(f"{program}\n-> {told}\n")
    print(reply)


def program_in(reply: str) -> str | None:
    """Return the program in a reply; None if the reply is an answer."""
    return reply.removeprefix("```ts\n").removesuffix("\n```") if reply.startswith("```ts") else None


def report(outcome: Outcome) -> str:
    """Return an outcome as text for the model: the value, or the error with the line of the program."""
    if outcome.error is None:
        return f"{outcome.status}: {outcome.value}"
    return f"{outcome.status}, line {outcome.error.line}: {outcome.error.message}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("mcp.json"))
