"""Use a descriptor that was left open, such as one by which Paddock hears how the job has ended.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

found = []
for number in range(3, 1024):
    try:
        os.fstat(number)
    except OSError:
        continue
    found.append(number)
assert found
