"""Programs that run other programs: wrappers, shells, and programs with options that run commands.

The tables serve two purposes. Deny and ask rules look for a command behind every wrapper. An allow
rule for a program that can run others causes a warning, which recommends `SAFE_COMMANDS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KEYWORDS: Final = frozenset(("!", "do", "elif", "else", "if", "then", "until", "while", "{"))
"""Shell keywords that are followed by a command."""

SHELLS: Final = frozenset(
    ("ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "rbash", "sh", "tcsh", "yash", "zsh")
)
"""Programs that run a script, which is the text after `-c`, a file, or their input."""

SCRIPTED: Final = frozenset((*SHELLS, ".", "eval", "source", "trap"))
"""Programs whose arguments are a script or name one."""

# The number of operands before the command, for example the duration for `timeout`.
_OPERANDS: Final[Mapping[str, int]] = {
    "arch": 0,
    "chroot": 1,
    "chrt": 1,
    "dbus-run-session": 0,
    "entr": 0,
    "firejail": 0,
    "flock": 1,
    "linux32": 0,
    "linux64": 0,
    "parallel": 0,
    "personality": 1,
    "setarch": 1,
    "sg": 1,
    "ssh": 1,
    "taskset": 1,
    "timeout": 1,
    "gtimeout": 1,
}
_PLAIN: Final = (
    "-exec -execdir -ok -okdir aa-exec bubblewrap builtin busybox bwrap catchsegv cgexec "
    "chpst choom command coproc chronic daemonize direnv doas dumb-init env eatmydata exec "
    "fakechroot fakeroot faketime flatpak-spawn gdb gosu heaptrack hyperfine ionice ltrace "
    "mosh newgrp nice nohup nsenter numactl parallel-ssh perf pkexec prlimit proot proxychains "
    "proxychains4 rlwrap runcon runuser sandbox-exec schroot screen script setpriv setsid "
    "setuidgid sshpass start-stop-daemon stdbuf strace su su-exec sudo systemd-inhibit "
    "systemd-run taskpolicy tini time tmux torsocks torify toybox tsocks unbuffer unshare valgrind "
    "viddy watch watchexec winpty with-contenv xargs xvfb-run caffeinate uvx npx bunx pipx"
)
WRAPPERS: Final[Mapping[str, int]] = MappingProxyType(
    {**dict.fromkeys((*_PLAIN.split(), *SCRIPTED), 0), **_OPERANDS}
)
"""Programs that run the words after them, with the number of operands before the command."""

RUN_COMMANDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        program: frozenset(commands.split())
        for program, commands in {
            "apptainer": "exec run",
            "asdf": "exec",
            "bun": "x run",
            "bundle": "exec",
            "conda": "run",
            "devbox": "run",
            "distrobox": "enter",
            "docker": "run exec",
            "docker-compose": "run exec",
            "fd": "-x -X --exec --exec-batch",
            "fdfind": "-x -X --exec --exec-batch",
            "flatpak": "run",
            "git": "run foreach --exec -x --tree-filter --index-filter",
            "hatch": "run",
            "ip": "exec",
            "kubectl": "run exec",
            "lxc": "exec",
            "mamba": "run",
            "micromamba": "run",
            "mise": "exec x",
            "nerdctl": "run exec",
            "nix": "run develop shell",
            "nix-shell": "--run --command",
            "npm": "exec x",
            "pdm": "run",
            "pipenv": "run",
            "pixi": "run",
            "pnpm": "exec dlx x",
            "podman": "run exec",
            "poetry": "run",
            "rustup": "run",
            "rye": "run",
            "singularity": "exec run",
            "snap": "run",
            "toolbox": "run",
            "uv": "run",
            "vagrant": "ssh",
            "yarn": "exec dlx",
        }.items()
    }
)
"""Programs that run the words after one of their subcommands or options, as `uv run` does."""

EXECUTING_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "awk": "system() in a program",
        "cargo": "--config and build scripts",
        "curl": "-o, which writes any file, and -K",
        "ed": "the command !",
        "find": "-exec and -delete",
        "gawk": "system() in a program",
        "gcc": "-wrapper",
        "git": "-c core.pager=…, --exec-path and --upload-pack",
        "go": "run, -exec and -toolexec",
        "hg": "--config",
        "less": "the command !",
        "make": "recipes and SHELL=…",
        "man": "--pager",
        "more": "the command !",
        "mvn": "exec:exec",
        "node": "-e",
        "npm": "scripts and exec",
        "pip": "install, which runs setup scripts",
        "perl": "-e",
        "php": "-r",
        "pnpm": "scripts and exec",
        "psql": r"the command \!",
        "pytest": "-p and conftest files",
        "python": "-c and -m",
        "python3": "-c and -m",
        "rg": "--pre",
        "rsync": "-e",
        "ruby": "-e",
        "scp": "-S and -o ProxyCommand=…",
        "sed": "the command e",
        "sftp": "-S and -o ProxyCommand=…",
        "sort": "--compress-program",
        "sqlite3": "the command .shell",
        "svn": "--config-option",
        "tar": "--checkpoint-action=exec=… and --to-command",
        "uv": "run",
        "vi": "-c",
        "vim": "-c",
        "wget": "--use-askpass and -O, which writes any file",
        "yarn": "scripts and exec",
        "zip": "-TT",
    }
)
"""Programs that can run other programs or write any file, with the options for that."""

# These programs run other programs only with options before their first operand.
_INTERPRETERS: Final = frozenset(("node", "perl", "php", "python", "python3", "ruby"))
_GIT_COMMANDS: Final = frozenset(
    (
        "am",
        "archive",
        "bisect",
        "clone",
        "config",
        "daemon",
        "diff",
        "difftool",
        "fast-import",
        "fetch",
        "filter-branch",
        "format-patch",
        "grep",
        "gui",
        "help",
        "instaweb",
        "log",
        "ls-remote",
        "maintenance",
        "mergetool",
        "p4",
        "pull",
        "push",
        "rebase",
        "remote",
        "send-email",
        "show",
        "submodule",
        "svn",
        "worktree",
    )
)

SAFE_COMMANDS: Final[tuple[str, ...]] = (
    "basename *",
    "cat *",
    "cmp *",
    "cut *",
    "df *",
    "diff *",
    "dirname *",
    "du *",
    "echo *",
    "git branch",
    "git blame *",
    "git diff",
    "git diff --cached",
    "git diff --stat",
    "git log",
    "git log --oneline",
    "git ls-files *",
    "git remote -v",
    "git rev-parse *",
    "git show",
    "git status *",
    "grep *",
    "head *",
    "ls *",
    "nl *",
    "pwd",
    "readlink *",
    "realpath *",
    "sha256sum *",
    "stat *",
    "tail *",
    "tr *",
    "uname *",
    "wc *",
    "whoami",
)
"""Patterns for commands that only read: they run no program named by arguments and write no file.

Git runs programs that a repository's configuration names, for example as `core.fsmonitor`. Allow
these commands only where the agent cannot write to `.git`.
"""


def read_only_commands(tool: str = "Bash") -> tuple[str, ...]:
    """Return allow rules for `SAFE_COMMANDS`.

    The commands can read any file that the process can read.

    Args:
        tool: The name of a tool that has an argument for the command.
    """
    return tuple(f"{tool}(command:{pattern})" for pattern in SAFE_COMMANDS)


def find_execution_risk(pattern: str) -> str:
    """Describe how an allowed command could run any other program; empty if no way is known.

    Args:
        pattern: A pattern for commands, such as `git *`.
    """
    program, _, rest = " ".join(pattern.replace(":*", " *").split()).partition(" ")
    program = program.rpartition("/")[2]
    first = rest.partition(" ")[0]
    if "*" not in rest and "?" not in rest:
        return ""
    is_open = not {"*", "?", "["}.isdisjoint(first)  # the wildcard includes the first argument
    if program in WRAPPERS:
        return "it runs any program"
    if program == "git":
        risky = is_open or first in _GIT_COMMANDS
    elif program in _INTERPRETERS:
        risky = is_open
    elif program in RUN_COMMANDS and not is_open:
        risky = first in RUN_COMMANDS[program]
    else:
        risky = program in EXECUTING_OPTIONS or program in RUN_COMMANDS
    if not risky:
        return ""
    options = EXECUTING_OPTIONS.get(program) or " and ".join(sorted(RUN_COMMANDS[program]))
    return f"its arguments can run other programs or write files: {options}"
