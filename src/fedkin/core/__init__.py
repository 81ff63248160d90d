"""Core types that every other part of fedkin uses: client, payload, task, federation, method and record."""

from fedkin.core.client import Client
from fedkin.core.errors import FedkinError
from fedkin.core.federation import Federation
from fedkin.core.method import Method, Record, State
from fedkin.core.payload import Payload, Traffic
from fedkin.core.task import Task, client_task, task

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
    "client_task",
    "task",
]
