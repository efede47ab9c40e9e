"""Read what the kernel shows to root's number alone: its timers, its memory, page by page.

landlock: closed
namespaces: closed
unconfined: closed
"""

NAMES = (
    "allocinfo",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "pagetypeinfo",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
)

seen = []
for name in NAMES:
    try:
        with open(f"/proc/{name}", "rb") as file:
            seen += [name] * bool(file.read(8))
    except OSError:
        pass
if not seen:
    raise OSError("nothing is there")
