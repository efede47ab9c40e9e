"""Read a file outside of what is granted.

landlock: closed
namespaces: closed
unconfined: open
"""

print(open(FACTS["outside"] + "/secret").read())
