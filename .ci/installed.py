"""Looks at an installed fedkin: that it is the installed one, light, and names the extra that a command needs."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

OF_EXTRAS = {"datasets": "datasets", "pyarrow": "parquet", "flwr": "flower"}
"""Packages that no base installation brings, and the extra of each."""

COMMANDS = {
    "run kfed --data hf:mnist": "pip install 'fedkin[datasets]'",
    "run kfed --data table.parquet": "pip install 'fedkin[parquet]'",
    "run kfed --engine flower": "pip install 'fedkin[flower]'",
    "run kfed --set method.features=timm:NAME": "pip install 'fedkin[images]'",
    "federation init app": "pip install 'fedkin[flower]'",
}
"""Commands that need an extra, and what their sentence names."""


def main(environment: str) -> None:
    """Check the fedkin of this interpreter, which is `environment`'s; the first thing wrong ends with a sentence."""
    import fedkin

    if Path(environment).resolve() not in Path(fedkin.__file__).resolve().parents:
        sys.exit(f"{fedkin.__file__} is not the installed package")
    if brought := [name for name in OF_EXTRAS if find_spec(name) is not None]:
        sys.exit(f"A base installation brings {', '.join(brought)}")
    Path("table.parquet").write_bytes(b"PAR1")
    for words, ending in COMMANDS.items():
        done = subprocess.run([sys.executable, "-m", "fedkin", *words.split()], capture_output=True, text=True)
        if done.returncode != 2 or ending not in done.stderr:
            sys.exit(f"`fedkin {words}` ended with {done.returncode} and {done.stderr!r}; it should name {ending!r}")
        if done.stderr.count("\n") != 1:
            sys.exit(f"`fedkin {words}` says more than a sentence: {done.stderr}")
    print(f"fedkin {fedkin.__version__} in {environment}: light, and it names its extras")


if __name__ == "__main__":
    main(*sys.argv[1:])
