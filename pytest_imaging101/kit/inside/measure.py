"""Runs a script and says, as JSON in its last line, what it took: ``measure.py SCRIPT``."""

import json
import resource
import subprocess
import sys
import time

started = time.perf_counter()
code = subprocess.run([sys.executable, *sys.argv[1:]]).returncode
seconds = time.perf_counter() - started
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024}))
sys.exit(code)
