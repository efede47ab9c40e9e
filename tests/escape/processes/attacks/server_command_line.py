"""Read Paddock's command line.

landlock: closed
namespaces: closed
unconfined: open
"""

with open(f"/proc/{FACTS['server']}/cmdline", "rb") as file:
    if b"escape_driver" not in file.read():
        raise OSError("another process has that number in this pid namespace")
