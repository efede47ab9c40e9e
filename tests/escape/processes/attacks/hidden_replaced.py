"""Remove, change, replace or move hidden files, or a folder above them, so that a later program finds what is in them.

landlock: closed
namespaces: closed
unconfined: open
"""

import contextlib
import os
import shutil

os.chdir(FACTS["workspace"])
open_for_writing = os.O_WRONLY | os.O_TRUNC
attempts = [
    lambda: os.makedirs("node_modules"),
    lambda: os.rename("api", "node_modules/api"),
    lambda: os.rename("api/config", "api/other"),
    lambda: os.rename("api", "site-packages"),
    lambda: os.close(os.open(".env", open_for_writing)),
    lambda: os.truncate(".env", 0),
    lambda: os.unlink(".env"),
    lambda: os.rename("src/main.py", ".env"),
    lambda: shutil.rmtree("api"),
]
for attempt in attempts:
    with contextlib.suppress(OSError):
        attempt()
