"""Give a hidden file, or a folder above it, another name, and read it there.

landlock: closed
namespaces: closed
unconfined: open
"""

import contextlib
import os

os.chdir(FACTS["workspace"])
os.makedirs("node_modules", exist_ok=True) if os.access(".", os.W_OK) else None
attempts = [
    lambda: os.link(".env", "linked"),
    lambda: os.link(".env", "src/linked"),
    lambda: os.symlink(".env", "symbolic"),
    lambda: os.symlink("../.env", "src/symbolic"),
    lambda: os.rename(".env", "renamed"),
    lambda: os.rename("api/config/.env", "src/renamed"),
    lambda: os.rename("api/config", "api/settings"),
    lambda: os.rename("api", "src/api"),
    lambda: os.rename("src", "api/src"),
]
for attempt in attempts:
    with contextlib.suppress(OSError):
        attempt()
seen = []
for folder, _, names in os.walk("."):
    for name in names:
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK)
            seen.append(os.read(file, 100))
assert b"SECRET" in seen
