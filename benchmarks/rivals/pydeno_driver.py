"""pydeno: V8 in a confined worker, a fresh session for each program."""

import json
import sys
import time

from pydeno import Pydeno

PROGRAMS = {
    "fresh": ("1 + 1", 2),
    "calls": ("let sum = 0; for (let i = 0; i < 100; i++) sum += (await echo({ i })).i; sum", 4950),
}

with Pydeno() as pool:
    for line in sys.stdin:
        asked = json.loads(line)
        program, expected = PROGRAMS[asked["work"]]
        spent = []
        for _ in range(asked["times"]):
            started = time.perf_counter()
            with pool.checkout() as session:
                value = session.feed_run(program, external_lookup={"echo": lambda given: given})
            spent.append((time.perf_counter() - started) * 1000)
            assert value == expected, value
        print(json.dumps(spent), flush=True)
