"""Kill everything that can be killed; Paddock's survival is what counts.

landlock: closed
namespaces: closed
unconfined: not tried
"""

import os
import signal

os.kill(-1, signal.SIGKILL)
raise OSError("nobody was killed, or Paddock would not read this")
