"""vantage6's two functions: the central one runs an experiment, the partial one does what it asks at an organization.

To the Flower engine the collaboration is a grid, whose nodes are organizations and whose messages are subtasks.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from fedkin.core.errors import FedkinError, toml_text
from fedkin.core.files import make_private, write_atomically
from fedkin.deploy.app_folder import FEDERATED
from fedkin.deploy.server_app import serve
from fedkin.deploy.site_app import POLICY, keep, read_site
from fedkin.engines.flower_engine import without_flower
from fedkin.engines.flower_engine.messages import answer, content, read
from fedkin.engines.site import Site
from fedkin.experiment.config import load_config
from fedkin.experiment.run_folder import LEDGER

if TYPE_CHECKING:
    from pandas import DataFrame

SITE_TEXT, POLICY_TEXT = "FEDKIN_SITE_TEXT", "FEDKIN_POLICY_TEXT"
"""Environment variables of a node (``algorithm_env``): lines of ``site.toml`` and of ``policy.toml``."""
_RUNNING = {"pending", "initializing", "active"}
"""vantage6's states of a run that may still have a result."""


def run_central(
    client: Any, method: str, settings: Sequence[str] = (), organizations: Sequence[int] = ()
) -> dict[str, str]:
    """Run an experiment, a method's name, on organizations, by default all of the collaboration; return its results.

    `settings` are ``section.key=value``, as of ``fedkin run``. Its ``results`` are the run's folder as a ZIP file in
    base64, without the clusters of samples. Raises FedkinError if the experiment is not allowed, or organizations
    refuse what it needs.
    """
    ids = list(organizations) or [organization["id"] for organization in client.organization.list()]
    config = load_config(method, [*FEDERATED, *settings, f"federation.sites={len(ids)}"])
    with TemporaryDirectory() as folder:
        out = Path(folder) / "results"
        serve(cast(Grid, Collaboration(client, ids)), config, out)
        (out / LEDGER).unlink()  # tokens are the server's own
        return {"results": b64encode(Path(shutil.make_archive(folder + "/run", "zip", out)).read_bytes()).decode()}


def answer_partial(client: Any, frame: DataFrame, message: dict[str, Any]) -> dict[str, Any]:
    """Answer a message of the central function on an organization's table.

    What is refused, and why, is in the answer. All that would be printed goes to ``log.txt`` in the node's temporary
    folder, beside the organization's state and its part of the result: vantage6 shows logs to researchers.
    """
    name = f"organization-{client.organization_id}"
    folder = Path(os.environ["TEMPORARY_FOLDER"]) / name
    make_private(folder)

    def site() -> Site:
        own = f'name = "{name}"\ndata = "{name}"\nfolder = {toml_text(str(folder / "private"))}\n'
        for path, text in (
            ("site.toml", own + os.environ.get(SITE_TEXT, "")),
            (POLICY, os.environ.get(POLICY_TEXT, "")),
        ):
            write_atomically(folder / path, text)
        return read_site(folder / "site.toml", frame)

    with _into(folder / "log.txt"):
        return _packed(answer(_unpacked(message), site, keep))


@contextmanager
def _into(path: Path) -> Iterator[None]:
    """Write all that is printed or logged in the context to a file."""
    with path.open("a", encoding="utf-8") as log, redirect_stdout(log), redirect_stderr(log):
        logger, handler = logging.getLogger("fedkin"), logging.StreamHandler(log)
        logger.addHandler(handler)
        propagate, logger.propagate = logger.propagate, False
        try:
            yield
        finally:
            logger.propagate = propagate
            logger.removeHandler(handler)


class Collaboration:
    """Grid of Flower's, as far as the engine needs one, over organizations of a vantage6 collaboration.

    Organization i is node i + 1: 0 is no node.
    """

    def __init__(self, client: Any, organizations: Sequence[int]) -> None:
        without_flower()
        self.client, self.organizations = client, list(organizations)
        self._sent: dict[str, Message] = {}
        self._looked = 0.0

    def get_node_ids(self) -> list[int]:
        """Return the numbers of all nodes; vantage6 queues tasks of those that are away."""
        return [organization + 1 for organization in self.organizations]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Create a subtask for each message; return the ids of those that the server took."""
        sent = []
        for message in messages:
            request = {"method": "partial", "kwargs": {"message": _packed(message.content)}}
            task = self.client.task.create(
                input_=request, organizations=[message.metadata.dst_node_id - 1], name="fedkin"
            )
            if "id" in task:
                sent.append(str(task["id"]))
                message.metadata.__dict__["_message_id"] = sent[-1]
                self._sent[sent[-1]] = message
        self._looked = 0.0
        return sent

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies that have come to these messages, or why there will be none."""
        if time.monotonic() - self._looked < 2.0:  # seconds; a subtask starts a container, which takes longer
            return []
        self._looked = time.monotonic()
        replies = []
        for number in message_ids:
            states = [run["status"] for run in self.client.run.from_task(int(number))]
            if not states or _RUNNING.intersection(states):
                continue
            results = self.client.result.from_task(int(number))
            try:
                reply: RecordDict | Error = _unpacked(results[0])
            except (FedkinError, LookupError):
                reply = Error(2, f"vantage6: {states[0]}")
            replies.append(Message(reply, reply_to=self._sent.pop(number)))
        return replies


def _packed(records: RecordDict) -> dict[str, Any]:
    """Return a message's content as JSON has it."""
    message = read(records)
    return {"facts": message.facts, "payload": b64encode(message.payload or b"").decode()}


def _unpacked(message: Any) -> RecordDict:
    """Return the content of a message; raise FedkinError if it is none."""
    try:
        return content(b64decode(message["payload"], validate=True) or None, **message["facts"])
    except (TypeError, ValueError, LookupError) as error:
        raise FedkinError("The message is not one of fedkin's.") from error
