"""Read Paddock's environment, where keys are.

landlock: closed
namespaces: closed
unconfined: open
"""

print(len(open(f"/proc/{FACTS['server']}/environ", "rb").read()))
