"""Leave what a person's shells, ssh, git and desktop start or obey, where the workspace is the home.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

for name in (
    *(
        ".ssh/authorized_keys",
        ".gitconfig",
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"),
        ".config/git/config",
        ".config/fish/config.fish",
        ".bash_aliases",
        ".inputrc",
        ".xprofile",
        ".xsession",
        ".xsessionrc",
        ".xinitrc",
        ".config/environment.d/50-path.conf",
    ),
    *(".config/systemd/user/new.service", ".config/autostart/new.desktop"),
    *(".config/nvim/init.lua", ".config/Code/User/settings.json", ".config/Code/User/profiles/x/tasks.json"),
    *(".config/zed/settings.json", ".emacs.d/init.el", ".aws/config", ".kube/config", ".docker/config.json"),
    *(".ipython/profile_default/startup/new.py", ".cargo/env", ".npmrc", ".psqlrc", ".tmux.conf", ".wgetrc"),
):
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write("echo attack")
