"""Flower ClientApp that answers fedkin's messages at a node."""

from __future__ import annotations

import logging
from collections.abc import Callable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedkin.core import FedkinError, Payload
from fedkin.core.files import FileError
from fedkin.core.replies import Failure, failure_of
from fedkin.engines.flower_engine.transport import HELLO, KEEP, REFUSED, TASK, content, in_one_line, read
from fedkin.engines.site import Request, Site


class SiteDataError(FileError):
    """Error in the data of a site whose own file could be read, so that its name is known."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


_OWN = "its site file, data or private folder cannot be used; its own log says more"
"""All that a server learns of an error in a site's files, whose message may hold a path or a cell of the data."""
_LONGEST = 1000
"""Characters of a server's reason that the site's log has."""
_log = logging.getLogger(__name__)

Keep = Callable[[Site, Request, Payload], None]
"""Writes a site's part of a run's result into its folder."""


def client_app(site_of: Callable[[Context], Site], keep: Keep) -> ClientApp:
    """Return a ClientApp that introduces a site, runs tasks on its data, and saves its results.

    `site_of` gives the site that a node stands for. Of an error at a site the server learns what of it is public, see
    `fedkin.core.FedkinError`, or its type alone; the site's log has its sentence. A simulated site has no secrets from
    whoever simulates it.
    """
    app = ClientApp()

    @app.query()
    def answer(message: Message, context: Context) -> Message:
        return Message(_answer(message, context, site_of, keep), reply_to=message)

    return app


def _answer(message: Message, context: Context, site_of: Callable[[Context], Site], keep: Keep) -> RecordDict:
    site = None
    try:
        query, site = read(message.content), _site(site_of, context)
        kind = query.text("kind")
        if kind == HELLO:
            return content(site.introduction(query.facts.get("labels") == 1, query.tree()))
        if kind == REFUSED:
            _log.error("fedkin: The server refuses this site: %s", in_one_line(query.text("reason"), _LONGEST))
            return content()
        request = Request.from_json(query.text("request"))
        if kind == TASK:
            reply, seconds = site.answer(request, query.tree())
            return content(reply, seconds=seconds)
        if kind == KEEP:
            keep(site, request, query.tree())
            return content()
        raise FedkinError(f"Messages of kind '{kind}' are not known here.", public=True)
    except FileError as error:
        _log.error("fedkin: %s", error)
        return content(refusal=f"Site '{error.name}': {_OWN}" if isinstance(error, SiteDataError) else _OWN)
    except FedkinError as error:
        _log.error("fedkin: %s", error)
        failure = failure_of(error)
        if site is not None and site.simulated:  # one machine, one owner: the whole sentence
            failure = Failure(error.kind, str(error))
        return content(refusal=str(failure), failure=failure.kind)
    except Exception as error:
        _log.exception("fedkin: What the server asked could not be done")
        failure = failure_of(error)
        return content(refusal=str(failure), failure=failure.kind)


def _site(site_of: Callable[[Context], Site], context: Context) -> Site:
    """Return the site of a node; of an error in its file or data the server learns the site's name alone."""
    try:
        return site_of(context)
    except FedkinError as error:
        text = f"{error} Once that is mended, start the site again."
        raise SiteDataError(text, error.name) if isinstance(error, SiteDataError) else FileError(text) from error
