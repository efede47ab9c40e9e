"""Read outside by way of the workspace and `..`.

landlock: closed
namespaces: closed
unconfined: open
"""

print(open(FACTS["workspace"] + "/../outside/secret").read())
