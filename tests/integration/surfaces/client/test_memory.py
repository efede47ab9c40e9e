"""What of a request is kept when it has ended: nothing that was sent, and nothing that came back."""

import asyncio
import gc
from pathlib import Path

from tests.support.servers import make_entry, write_servers

from paddock import Outcome, Paddock, Settings
from paddock.model.request import ServerCall
from paddock.policy.settings.schema import AuditSettings


def alive(kind: type) -> list[object]:
    """Return the objects of a class that are no garbage."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is kind]


def test_calls_of_servers_are_forgotten_though_the_timers_of_their_limits_are_not_due(tmp_path: Path) -> None:
    odd = make_entry("odd")
    write_servers(tmp_path, {"odd": odd})
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"))

    async def main() -> list[object]:
        async with Paddock(tmp_path, settings=settings) as p:
            before = [*alive(ServerCall), *alive(Outcome)]  # of other tests
            for _ in range(3):
                outcome = await asyncio.create_task(p.call("odd", "echo", {"text": "large"}))
                assert outcome.value == "large"
                del outcome
            await asyncio.sleep(0)  # until its next turn, the event loop knows what it has just handed over
            now = [*alive(ServerCall), *alive(Outcome)]
            return [each for each in now if not any(each is other for other in before)]

    assert asyncio.run(main()) == []
