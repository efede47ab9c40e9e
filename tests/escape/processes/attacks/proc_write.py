"""Write to /proc/sys.

landlock: closed
namespaces: closed
unconfined: any
"""

open("/proc/sys/kernel/core_pattern", "w").close()
