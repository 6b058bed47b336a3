"""Who may what: versions of the accounts at each broker, and the files that the console was told to
show."""

from __future__ import annotations

import asyncio
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ..door import Person
from ..model.accounts import MOST_FILE_BYTES, AccountFile, parse_accounts
from ..site import Form, Site


def add_to(site: Site) -> None:
    async def show(request: Request, person: Person, _form: Form) -> Response:
        versions, problems = (await person.view.acl_versions.get()).value
        paths = site.door.settings.acl_files
        files = await asyncio.gather(*(asyncio.to_thread(file_of, path) for path in paths))
        return site.html(
            request, person, "accounts.html", versions=versions, problems=problems, files=files
        )

    site.page("/accounts", show)


def file_of(path: str) -> AccountFile:
    """Read anew each time: brokers do so, too."""
    try:
        with Path(path).open("rb") as file:
            return parse_accounts(path, file.read(MOST_FILE_BYTES).decode("utf-8"))
    except OSError as error:
        return AccountFile(path, (), (), f"it cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        return AccountFile(path, (), (), "it is no UTF-8")
