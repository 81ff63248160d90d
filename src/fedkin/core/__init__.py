"""Core types that every other part of fedkin uses: client, payload, task, federation, method and record.

They are imported when first asked for: errors, names and paths are checked without them, before torch is imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkin.core.client import Client
    from fedkin.core.errors import FedkinError
    from fedkin.core.federation import Federation
    from fedkin.core.method import Method, Record, State, Traits
    from fedkin.core.payload import Payload, Traffic
    from fedkin.core.tasks import Task, client_task, task

_MODULES = {
    "Client": "client",
    "Federation": "federation",
    "FedkinError": "errors",
    "Method": "method",
    "Payload": "payload",
    "Record": "method",
    "State": "method",
    "Task": "tasks",
    "Traffic": "payload",
    "Traits": "method",
    "client_task": "tasks",
    "task": "tasks",
}

__all__ = [
    "Client",
    "Federation",
    "FedkinError",
    "Method",
    "Payload",
    "Record",
    "State",
    "Task",
    "Traffic",
    "Traits",
    "client_task",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fedkin.core' has no attribute '{name}'", name=name)
    return getattr(import_module(f"fedkin.core.{_MODULES[name]}"), name)
