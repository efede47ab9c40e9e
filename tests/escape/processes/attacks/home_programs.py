"""Leave programs, services and start files that a session of the user's runs, where the workspace is the home.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

FILES = {
    ".local/bin/git": "#!/bin/sh",
    ".config/systemd/user/x.service": "[Service]",
    ".local/share/dbus-1/services/x.service": "[D-BUS Service]",
    ".config/autostart/x.desktop": "[Desktop Entry]",
    ".local/lib/python3.11/site-packages/x.pth": "import program",
    ".tcshrc": "program",
    ".config/nushell/config.nu": "program",
    ".config/powershell/profile.ps1": "program",
}
for name, text in FILES.items():
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
