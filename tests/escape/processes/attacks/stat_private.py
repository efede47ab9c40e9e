"""See that a file is there, and how large it is, in a folder outside that its owner has closed to others.

landlock: open
landlock as root: closed
namespaces: closed
unconfined: open
"""

import os

print(os.stat(FACTS["private"] + "/."))
