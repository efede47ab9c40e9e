"""Names and patterns of what is protected in every writable workspace. `protection` says what a pattern means.

A file is listed if a tool runs or obeys it only because a person works in its folder: opens it, starts a shell, an
editor, an agent or a debugger, or calls the tool for something else. Sources, tests and build files, which people run
on purpose, are not: programs are expected to change them. Many entries matter only where the workspace is a home
directory. There a folder that may be large, or that a tool writes to while it works, is listed by its settings alone.
"""

PROTECTED: dict[str, tuple[str, ...]] = {
    "Paddock": (
        "paddock.toml",
        ".paddock",
        ".mentu",  # scripts in it run by name, like those of `.paddock`
    ),
    "Git": (
        *(".git/hooks", ".git/config", ".git/config.worktree"),
        ".git/commondir",  # git takes hooks and settings from the folder that it names
        ".git/rebase-merge/git-rebase-todo",  # `git rebase --continue` runs its `exec` lines
        ".gitmodules",  # names the folders in which `git submodule` works
        "HEAD",  # makes a folder itself a repository, with its settings in a `config` beside it
        *(".git/worktrees/*/config.worktree", ".git/worktrees/*/commondir", ".git/worktrees/*/gitdir"),
        ".git/worktrees/*/rebase-merge/git-rebase-todo",
        *(".git/modules/*/config", ".git/modules/*/config.worktree", ".git/modules/*/commondir"),
        *(".git/modules/*/hooks", ".git/modules/*/rebase-merge/git-rebase-todo"),
        *(".gitconfig", ".config/git", ".config/gh", ".config/glab-cli"),
        *(".tigrc", ".config/tig", ".lazygit.yml", ".config/lazygit"),
    ),
    "Other version control": (
        *(".hg/hgrc", ".hg/hgrc-not-shared", ".hg/sharedpath", ".hgrc", ".config/hg"),
        *(".sl/config", ".jj/repo/config.toml", ".jj/workspace-config.toml", ".jjconfig.toml", ".config/jj"),
        *("_darcs/prefs", ".darcs", ".subversion", ".bazaar", ".config/breezy", ".bzr/branch/branch.conf"),
        *(".arcconfig", ".arcrc", ".reviewboardrc"),
    ),
    "Agents": (
        *("mcp.json", ".mcp.json", "**/mcp.json", "**/.mcp.json", ".*/mcp*", ".*/settings*.json"),
        *(".*/hooks", ".*/hooks.json"),
        *(
            ".github/mcp.json",
            ".github/copilot",
            ".github/hooks",
            ".copilot/config.json",
        ),  # of GitHub Copilot
        *(".claude", ".claude.json", ".config/Claude/claude_desktop_config.json", ".codex"),
        *(".cursor", ".gemini", ".roo", ".kilocode"),
        *(".kiro", ".windsurf", ".codeium/windsurf/mcp_config.json", ".amazonq", ".aws/amazonq"),
        *(".amp", ".config/amp", ".agents", ".config/agents", ".continue", ".factory", ".zcode"),
        *(".deepagents", ".abacusai", ".junie", ".warp", ".qwen", ".opencode", ".config/opencode"),
        *("opencode.json", "opencode.jsonc", ".crush.json", "crush.json", ".config/crush"),
        *(".cline/data/settings", ".config/github-copilot", ".clinerules/hooks", ".goose"),
        *(".config/goose", ".openhands", ".augment"),
        *(".aider.conf.yml", ".vibe", ".kimi", ".iflow", ".codebuddy", ".qoder", ".pi", ".rovodev"),
        ".lmstudio/mcp.json",
    ),
    "Editors": (
        *(".vscode", ".vs", ".idea", ".zed", ".fleet", ".nova", ".lapce", ".theia", ".trae", ".void"),
        *(".devcontainer", ".devcontainer.json", ".gitpod.yml", ".replit", ".idx", ".codesandbox"),
        *(".exrc", ".nexrc", ".vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".local.vimrc"),
        *(".vim/vimrc", ".vim/plugin", ".vim/ftplugin", ".vim/autoload"),
        *(".vim/after", ".vim/coc-settings.json", ".vim/pack/*/start/*/plugin"),
        *(".local/share/nvim/site/plugin", ".local/share/nvim/site/pack/*/start/*/plugin"),
        *(".config/vim", ".config/nvim", ".config/lvim", ".ideavimrc", ".config/ideavim"),
        *(".dir-locals.el", ".dir-locals-2.el", ".emacs", ".emacs.el", ".emacs.d/init.el"),
        *(".emacs.d/early-init.el", ".emacs.d/custom.el", ".emacs.d/lisp", ".spacemacs", ".doom.d"),
        *(".config/emacs/init.el", ".config/emacs/early-init.el", ".config/emacs/lisp", ".config/doom"),
        *(".helix", ".config/helix", ".config/kak", ".kakrc.local", ".config/micro"),
        *(".nanorc", ".config/nano"),
        *(".config/zed", ".config/lapce-stable", ".config/sublime-text/Packages/User"),
        *(".config/*/User/*.json", ".config/*/User/profiles", ".config/*/User/snippets"),
        *(".config/*/User/globalStorage/*/settings", ".config/JetBrains/*/*.vmoptions"),
        *(".*-server/data/Machine/settings.json", ".local/share/code-server/User/*.json"),
    ),
    "Commit hooks": (
        *(".husky", ".huskyrc*", ".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml"),
        *("lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json", ".lefthook*"),
        *(".lintstagedrc*", ".simple-git-hooks.*", "simple-git-hooks.*", ".overcommit.yml"),
        *("captainhook.json", ".captainhook.json", ".rusty-hook.toml"),
    ),
    "Shells": (
        *(".bashrc", ".bash_aliases", ".bash_profile", ".bash_login", ".bash_logout", ".profile"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh/custom"),
        *(".cshrc", ".tcshrc", ".login", ".logout", ".kshrc", ".mkshrc", ".shrc", ".xonshrc"),
        ".inputrc",  # can bind a key to a command and the Enter key
        *(".config/fish", ".config/nushell", ".config/xonsh", ".config/elvish", ".config/powershell"),
        *(".envrc", "**/.envrc", ".config/direnv", ".autoenv.zsh", ".config/starship.toml"),
        *("mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".mise"),
        *("mise/config.toml", ".config/mise*"),
        *(".tool-versions", ".asdfrc"),  # `path:` in it names a folder with executables
    ),
    "Logins and desktops": (
        *(".ssh", ".rhosts", ".shosts", ".pam_environment", ".config/environment.d", ".config/systemd"),
        *(".config/autostart", ".config/plasma-workspace", ".xprofile", ".xsession", ".xsessionrc"),
        *(".xinitrc", ".xserverrc", ".xbindkeysrc", ".vnc/xstartup", ".local/bin", ".local/share/systemd"),
        *(".local/share/dbus-1", ".local/share/applications", ".config/i3", ".i3", ".config/sway"),
        *(".config/hypr", ".config/niri", ".config/awesome", ".config/bspwm", ".config/sxhkd"),
        *(".config/openbox", ".config/lxsession", ".config/qtile"),
    ),
    "Terminals and their tools": (
        *(".screenrc", ".tmux.conf", ".config/tmux", ".byobu", ".config/zellij", ".config/kitty"),
        *(".config/alacritty", ".alacritty.*", ".config/wezterm", ".wezterm.lua", ".config/ghostty"),
        *(".config/foot", ".lessfilter", ".lesskey", ".config/lesskey", ".config/bat", ".config/ripgrep"),
        *(".ripgreprc", ".curlrc", ".config/curlrc", ".wgetrc", ".mailcap", ".forward", ".procmailrc"),
        *(".muttrc", ".mutt", ".config/mutt", ".neomuttrc", ".config/neomutt", ".msmtprc", ".rpmmacros"),
        *(".gnupg/gpg.conf", ".gnupg/gpg-agent.conf", ".gnupg/dirmngr.conf", ".gnupg/scdaemon.conf"),
    ),
    "Python": (
        *(".pdbrc", ".pdbrc.toml", ".pdbrc.py", ".pythonrc", ".pythonrc.py", ".pythonstartup", ".pypirc"),
        *(".ipython/profile_*/startup", ".ipython/profile_*/*_config.*", ".ipython/extensions"),
        *(
            ".jupyter/*_config.*",
            ".jupyter/custom",
            ".config/jupyter",
            ".local/share/jupyter/kernels/*/kernel.json",
        ),
        *(".config/bpython", ".config/ptpython"),
        ".local/lib/python*/site-packages/*.pth",  # Python runs their lines at each start
        ".local/lib/python*/site-packages/*customize.py",
        *(".pip", ".config/pip", ".config/uv", ".config/pypoetry", ".config/pdm", ".condarc", ".mambarc"),
    ),
    "Other languages": (
        *(".Rprofile", ".Renviron", ".RData", ".R/Makevars"),
        *(".irbrc", "_irbrc", "irb.rc", "$irbrc", ".config/irb", ".pryrc", ".config/pry"),
        *(".rdbgrc", ".rdbgrc.rb"),
        *(".byebugrc", ".gemrc", ".gem/credentials"),
        *(".cargo/config.toml", ".cargo/config", ".cargo/credentials.toml", ".cargo/env"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins"),
        *(".config/pnpm", ".bunfig.toml", ".nvm/nvm.sh", ".config/go/env", ".julia/config"),
        *(".ghci", ".ghc/ghci.conf", ".config/ghc", ".cabal/config", ".ocamlinit", ".config/utop"),
        *(".iex.exs", ".erlang", ".config/erlang", ".perldb", ".replyrc", ".re.pl", ".cpan/CPAN"),
        *(".psysh.php", ".config/psysh", ".composer/config.json", ".config/composer/config.json"),
        *(".lein/profiles.clj", ".clojure/deps.edn", ".config/clojure", ".sbt/repositories"),
        *(".sbt/*/*.sbt", ".sbt/*/plugins", ".ammonite/predef.sc"),
        *(".mavenrc", ".m2/settings.xml", ".m2/extensions.xml", ".gradle/init.gradle*", ".gradle/init.d"),
        *(".gradle/gradle.properties", ".octaverc", ".gnuplot", ".gdbinit", ".config/gdb", ".lldbinit"),
        *(".radare2rc", ".valgrindrc", ".guile", ".sbclrc", ".racketrc", ".config/fennel"),
    ),
    "Databases": (
        *(".psqlrc", ".sqliterc", ".config/sqlite3", ".duckdbrc", ".my.cnf", ".mylogin.cnf"),
        *(".mongorc.js", ".mongoshrc.js", ".config/pgcli", ".config/litecli", ".myclirc"),
    ),
    "Clouds and containers": (
        *(".aws/config", ".aws/credentials", ".aws/cli/alias", ".azure/config", ".azure/clouds.config"),
        *(".config/gcloud/configurations", ".config/gcloud/properties", ".boto", ".config/doctl", ".oci"),
        ".config/gcloud/application_default_credentials.json",
        *(".kube/config", ".kube/kuberc", ".config/helm", ".krew/bin"),
        *(".docker/config.json", ".docker/daemon.json", ".docker/cli-plugins", ".docker/contexts"),
        *(".config/docker", ".config/containers", ".terraformrc", ".tofurc"),
        *(".vagrant.d/Vagrantfile", ".ansible.cfg", ".ansible/plugins"),
    ),
}
"""What is protected, by the tools that obey it."""

_WILDCARDS = frozenset("*?[")
_ALL = tuple(dict.fromkeys(entry for entries in PROTECTED.values() for entry in entries))

PROTECTED_PATHS = tuple(entry for entry in _ALL if _WILDCARDS.isdisjoint(entry))
PROTECTED_PATTERNS = tuple(entry for entry in _ALL if not _WILDCARDS.isdisjoint(entry))
