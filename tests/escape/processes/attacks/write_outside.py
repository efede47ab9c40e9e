"""Change a file outside of what is granted.

landlock: closed
namespaces: closed
unconfined: open
"""

open(FACTS["outside"] + "/secret", "a").close()
