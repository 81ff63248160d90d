import subprocess
import sys

from fedkin.data.names import EMBEDDED
from fedkin.data.sources import load


def test_every_embedded_name_loads():
    assert {name for name in EMBEDDED if len(load(name)) > 100} == set(EMBEDDED)


def test_every_entry_is_one_line():
    assert all(text and "\n" not in text for text in EMBEDDED.values())


def test_listing_imports_nothing_heavy():
    heavy = "torch numpy pandas sklearn datasets"
    code = f"import sys, fedkin.data.names; print([m for m in '{heavy}'.split() if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
