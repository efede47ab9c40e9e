"""Leave something in /dev/shm for another job; what counts is what is there after the run.

landlock: closed
namespaces: closed
unconfined: open
"""

open("/dev/shm/" + FACTS["abstract"], "w").close()
