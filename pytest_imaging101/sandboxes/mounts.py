"""The walls of a bubblewrap sandbox, as its options: what it shares with the host and what of it it sees."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "/opt/environment"

# --die-with-parent ends bubblewrap when the thread that started it ends; what is inside follows only because it
# has a process namespace, whose first process bubblewrap is the parent of. One without the other is not enough.
ISOLATION = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--die-with-parent", "--new-session"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
)

# Not /usr itself: /usr/src and /usr/local are where people keep their own things, this project among them.
_USR_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "share", "include")
_TOP_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
PREFIX_FOLDERS = ("bin", "lib", "lib64")

# Debian reaches programs such as awk through /etc/alternatives; nothing here names the host or its users.
_ETC = ("ld.so.cache", "alternatives", "fonts")
_ACCOUNTS = {
    "passwd": "root:x:0:0::/:/bin/false\nsandbox:x:1000:1000::/workspace:/bin/bash\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}


def system_mounts(own: Path) -> list[str]:
    """Options for programs, libraries, devices and the few files of /etc that they need.

    ``own`` is a host folder of the sandbox's own, where the made-up files and an empty folder are put.
    """
    empty = own / "empty"
    empty.mkdir()
    options = _kernel_mounts()
    for name in _USR_FOLDERS:
        options += _read_only(Path("/usr", name))
    for name in _TOP_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            options += ["--symlink", os.readlink(folder), str(folder)]
        else:
            options += _read_only(folder)
    for name in _ETC:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, text in _ACCOUNTS.items():
        (own / name).write_text(text, encoding="utf-8")
        options += ["--ro-bind", str(own / name), f"/etc/{name}"]
    return options + _without_packages(Path("/usr"), empty)


def python_mounts(python: Path, root: Path, own: Path) -> list[str]:
    """Options for a virtual environment and the interpreter that its ``python`` is a link to."""
    options = ["--ro-bind", str(root), ENVIRONMENT]
    for prefix in interpreter_prefixes(python, root):
        for name in PREFIX_FOLDERS:
            options += _read_only(prefix / name)
        options += _without_packages(prefix, own / "empty")
    return options


def _kernel_mounts() -> list[str]:
    """/proc and /dev, with everything of /proc that does not belong to a process made read-only.

    To the kernel, the user of a sandbox that root started is root, whatever number it goes by inside, and files
    like /proc/sys/kernel/core_pattern ask for no more than that: written, they run programs on the host.
    """
    options = ["--proc", "/proc"]
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.is_dir() or entry.stat().st_mode & 0o222:
            options += ["--ro-bind", str(entry), str(entry)]
    return [*options, "--dev", "/dev"]


def _read_only(folder: Path) -> list[str]:
    return ["--ro-bind", str(folder), str(folder)] if folder.is_dir() else []


def _without_packages(prefix: Path, empty: Path) -> list[str]:
    return [option for folder in package_folders(prefix) for option in ("--ro-bind", str(empty), str(folder))]


def package_folders(prefix: Path) -> list[Path]:
    """The host's installed packages, to be hidden: this project is one of them, and it carries the answers."""
    return [
        packages
        for library in sorted(prefix.glob("lib*"))
        if not library.is_symlink()
        for packages in sorted(library.glob("python*/*-packages"))
        if packages.is_dir() and not packages.is_symlink()
    ]


def interpreter_prefixes(python: Path, root: Path) -> list[Path]:
    """Installations on the way from an environment's ``python`` to the program itself, but /usr."""
    prefixes = set()
    program = python
    while program.is_symlink():
        program = Path(os.path.normpath(program.parent / os.readlink(program)))
        for found in (program, program.resolve()):
            prefix = found.parent.parent
            if prefix != Path("/usr") and not prefix.is_relative_to(root):
                prefixes.add(prefix)
    return sorted(prefixes)
