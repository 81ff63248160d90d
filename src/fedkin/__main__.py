"""``python -m fedkin`` is ``fedkin``."""

from fedkin.cli import main

main()
