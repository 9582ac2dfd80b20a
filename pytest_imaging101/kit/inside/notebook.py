"""Executes a notebook in the folder where it lies: ``notebook.py FILE SECONDS``."""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

path, seconds = Path(sys.argv[1]), int(sys.argv[2])
notebook = nbformat.read(path, as_version=4)
client = NotebookClient(
    notebook, timeout=seconds, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
)
try:
    client.execute()
except CellExecutionError as error:
    sys.exit(f"{error.ename}: {error.evalue}")
