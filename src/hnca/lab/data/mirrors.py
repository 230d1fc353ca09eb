"""Public mirrors of the four files, over HTTP."""

import io
import threading
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlsplit

from .idx import FILES, unzipped
from .sources import Source, SourceError

PATIENCE = 5.0  # seconds until a mirror has to answer
SILENCE = 15.0  # seconds that a download may pause


def mirror(address: str) -> Source:
    """A directory on the web with the four files, each ending in .gz."""
    return Source(f"mirror {urlsplit(address).netloc}", partial(_fetch, address))


def _fetch(address: str) -> Mapping[str, bytes]:
    """Asks first whether the mirror is there, so that a machine without network loses a few
    seconds a mirror, not minutes."""
    from pooch import HTTPDownloader

    # Larger pieces than pooch's 1 KB; no logging and no retries, for the next mirror is at hand.
    download = HTTPDownloader(timeout=(PATIENCE, SILENCE), chunk_size=1 << 16)
    urls = {name: f"{address}{name}.gz" for name in FILES}
    if not _in_time(partial(download, urls[FILES[0]], None, None, check_only=True)):
        raise SourceError("does not have the files")
    return {name: _download(download, url) for name, url in urls.items()}


def _download(download: Callable, url: str) -> bytes:
    buffer = io.BytesIO()
    _explained(partial(download, url, buffer, None))
    try:
        return unzipped(buffer.getvalue())
    except ValueError as error:
        raise SourceError(str(error)) from None


def _in_time(ask: Callable[[], bool | None]) -> bool:
    """The answer, if it comes within `PATIENCE`. A timeout of the connection would not do: it
    counts for each address of a host anew, and not at all while a name is being resolved."""
    answers: list[bool | SourceError | None] = []

    def wait() -> None:
        try:
            answers.append(_explained(ask))
        except SourceError as error:
            answers.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if not answers:
        raise SourceError(f"no answer in {PATIENCE:.0f} s")
    if isinstance(answers[0], SourceError):
        raise answers[0]
    return bool(answers[0])


def _explained(request: Callable):
    """The request's result, or what went wrong in a few words."""
    import requests

    try:
        return request()
    except requests.Timeout:
        raise SourceError("too slow") from None
    except requests.HTTPError as error:
        status = error.response.status_code if error.response is not None else "error"
        raise SourceError(f"HTTP {status}") from None
    except requests.ConnectionError:
        raise SourceError("cannot be reached") from None
    except OSError as error:  # of which all other errors of requests are a kind
        raise SourceError(type(error).__name__) from None
