"""Send the server a signal.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

os.kill(FACTS["server"], 0)
