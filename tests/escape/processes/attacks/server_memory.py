"""Open Paddock's memory.

landlock: closed
namespaces: closed
unconfined: open
"""

open(f"/proc/{FACTS['server']}/mem", "rb").close()
