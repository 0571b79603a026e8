"""Pages in headless Chromium, where it is installed."""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import threading

import pytest

needed = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium here")


def shown(url, *flags):
    """The page's document once it is shown. Nothing may have been written to its console."""
    words = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--dump-dom",
    ]
    done = subprocess.run([*words, *flags, url], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@contextlib.contextmanager
def served(folder):
    """The address of a server on this machine of the files in `folder`."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
