"""Leave settings that debuggers, editors, consoles and git obey in the folder where a person starts them.

landlock: closed
namespaces: closed
unconfined: closed
"""

import os

TOOLS = (
    *(".Rprofile", ".RData", ".irbrc", ".pryrc", ".rdbgrc", ".pdbrc", ".gdbinit", ".ghci", ".ocamlinit"),
    *(".iex.exs", ".octaverc", ".psysh.php", ".exrc", ".nvim.lua", ".vimrc", ".helix/languages.toml"),
    *(".dir-locals.el", ".aider.conf.yml", ".openhands/setup.sh", ".clinerules/hooks/PreToolUse"),
    *(".cargo/config.toml", ".yarnrc.yml", ".mise.toml", ".tool-versions", "_darcs/prefs/defaults"),
    *(".reviewboardrc", ".lintstagedrc.json", ".git/rebase-merge/git-rebase-todo", ".replit", ".gitpod.yml"),
    *(".vim/pack/a/start/b/plugin/c.vim", ".vscode-server/data/Machine/settings.json"),
    *(".local/share/nvim/site/plugin/c.lua", ".local/share/jupyter/kernels/a/kernel.json"),
)
for name in TOOLS:
    path = FACTS["workspace"] + "/" + name
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write("exec attack")
