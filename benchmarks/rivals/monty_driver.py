"""pydantic-monty: an interpreter of a part of Python, a fresh session for each program."""

import json
import sys
import time

from pydantic_monty import Monty

PROGRAMS = {
    "fresh": ("1 + 1", 2),
    "calls": ("total = 0\nfor i in range(100):\n    total += echo({'i': i})['i']\ntotal", 4950),
}

with Monty() as pool:
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
