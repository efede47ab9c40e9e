"""Change the mode of a file outside from a thread, a child, a child of vfork, the child of a child, or a new program.

landlock: closed
landlock unsupervised: open
namespaces: closed
unconfined: open
"""

import os
import subprocess
import sys
import threading

path = FACTS["outside"] + "/mode"


def attempt():
    try:
        os.chmod(path, 0o777)
    except OSError:
        pass


thread = threading.Thread(target=attempt)
thread.start()
thread.join()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        attempt()
    else:
        os.wait()
    os._exit(0)
os.wait()
subprocess.run(["/bin/chmod", "777", path])  # by vfork
os.waitpid(os.posix_spawn("/bin/chmod", ["chmod", "777", path], {}), 0)
if os.stat(path).st_mode & 0o777 != 0o777:
    raise OSError("all were refused")
