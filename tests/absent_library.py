"""Runs a module of ours in an environment that lacks a library."""

import subprocess
import sys

__all__ = ["run_module_without"]


def run_module_without(library: str, module: str) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m module`` in a process that cannot import the library, and return its output and status."""
    code = f"import runpy, sys; sys.modules[{library!r}] = None; runpy.run_module({module!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
