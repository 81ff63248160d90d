"""The command, in this process."""

import pytest

from fedkin.cli import main


def fedkin(*arguments: str) -> int:
    """How the command ends."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    return int(end.value.code or 0)
