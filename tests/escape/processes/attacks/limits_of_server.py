"""Set limits of Paddock's process, such as one of CPU time, at which the kernel kills it.

landlock: closed
namespaces: closed
unconfined: open
"""

import resource

core = resource.prlimit(FACTS["server"], resource.RLIMIT_CORE)
resource.prlimit(FACTS["server"], resource.RLIMIT_CORE, core)
