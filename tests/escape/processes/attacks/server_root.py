"""Walk through Paddock's root directory.

landlock: closed
namespaces: closed
unconfined: open
"""

import os

print(os.listdir(f"/proc/{FACTS['server']}/root/"))
