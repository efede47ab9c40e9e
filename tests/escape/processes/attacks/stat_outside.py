"""See that a file outside is there, and how large it is.

landlock: open
namespaces: closed
unconfined: open
"""

import os

print(os.stat(FACTS["outside"] + "/secret"))
