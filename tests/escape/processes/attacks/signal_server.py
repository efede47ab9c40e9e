"""Send Paddock's process a signal.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.kill(FACTS["server"], 0)
