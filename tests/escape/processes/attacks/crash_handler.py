"""Have the machine's handler of crashes started by the hundred, which is root's, and under no limit of the job.

landlock: closed
namespaces: closed
unconfined: any
"""

import resource

resource.setrlimit(
    resource.RLIMIT_CORE, (0, 0)
)  # at 1 alone the kernel starts none (do_coredump of fs/coredump.c)
if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1):
    raise OSError("the limit stays what it was")
