"""An editor for tests: appends a line, or hangs; with CURATE_MARK set, tells that it runs."""

import os
import signal
import sys
import time
from pathlib import Path

file = Path(sys.argv[-1])
how = sys.argv[1]
if how == "append":
    with file.open("a", encoding="utf-8") as handle:
        handle.write(f"- note {len(file.read_text(encoding='utf-8').splitlines()) + 1}\n")
else:
    file.write_text("- saved before the end\n", encoding="utf-8")
    Path(os.environ["CURATE_MARK"]).write_text(str(os.getpid()), encoding="utf-8")
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
