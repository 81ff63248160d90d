"""Core types that every other part of fedkin uses: client, payload, task, federation, method and record.

They are imported when first asked for: errors, names and paths are checked without them, before torch is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin.core.client import Client as Client
    from fedkin.core.client_array import block_task as block_task
    from fedkin.core.errors import FedkinError as FedkinError
    from fedkin.core.federation import Federation as Federation
    from fedkin.core.method import Method as Method
    from fedkin.core.method import Record as Record
    from fedkin.core.method import State as State
    from fedkin.core.method import Traits as Traits
    from fedkin.core.payload import Payload as Payload
    from fedkin.core.tasks import Task as Task
    from fedkin.core.tasks import client_task as client_task
    from fedkin.core.tasks import task as task

_MODULES = {"Client": "client", "block_task": "client_array", "Federation": "federation", "FedkinError": "errors"}
_MODULES |= {"Payload": "payload"}
_MODULES |= dict.fromkeys(("Method", "Record", "State", "Traits"), "method")
_MODULES |= dict.fromkeys(("Task", "client_task", "task"), "tasks")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fedkin.core' has no attribute '{name}'", name=name)
    return getattr(import_module(f"fedkin.core.{_MODULES[name]}"), name)
