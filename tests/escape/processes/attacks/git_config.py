"""Change .git/config, which names programs to run.

landlock: closed
namespaces: closed
unconfined: closed
"""

open(FACTS["workspace"] + "/.git/config", "a").write("[core]\nfsmonitor=evil\n")
