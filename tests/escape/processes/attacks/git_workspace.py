"""Make the workspace itself a repository that needs no .git, with settings that name programs to run.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

os.chdir(FACTS["workspace"])
os.mkdir("objects")
os.mkdir("refs")
open("config", "w").write('[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = "./program; false"\n')
open("HEAD", "w").write("ref: refs/heads/main\n")
