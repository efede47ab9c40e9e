"""Write to /sys.

landlock: closed
namespaces: closed
unconfined: any
"""

open("/sys/kernel/mm/transparent_hugepage/enabled", "w").close()
