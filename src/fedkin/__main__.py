"""``python -m fedkin`` is ``fedkin``."""

from fedkin.cli import main

if __name__ == "__main__":
    main()
