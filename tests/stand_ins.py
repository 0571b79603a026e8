"""A module of a test's own in the place of a package that is not installed everywhere, or needs a network."""

from __future__ import annotations

import contextlib
import sys


@contextlib.contextmanager
def stand_in(monkeypatch, folder, name, source):
    """Lets `import NAME` find a module of this source, written into a new folder in `folder`."""
    (folder / "modules").mkdir()
    (folder / "modules" / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder / "modules"))
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    sys.modules.pop(name, None)
