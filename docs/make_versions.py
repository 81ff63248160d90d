"""Writes the site of every version side by side, with a choice between them: ``python docs/make_versions.py [FOLDER]``.

FOLDER, by default ``build/site``, then is what any host of static files serves: ``latest/`` is the checkout,
``v1.2.3/`` the tag of that name, ``versions.json`` what the choice on every page reads, and ``index.html`` leads to the
newest release. A tag that stands there already is not built again.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from packaging.version import InvalidVersion, Version

_ROOT = Path(__file__).parents[1]
LATEST = "latest"

_START = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>fedkin</title>
<meta http-equiv="refresh" content="0; url={url}"><a href="{url}">fedkin {version}</a></html>
"""


def releases(repository: Path) -> list[str]:
    """Tags ``v<version>`` with a ``docs/conf.py``, the newest version first."""
    tags = _git(repository, "tag", "--list", "v*").decode().split()
    known = {tag: parsed for tag in tags if (parsed := _version(tag)) is not None and _has_docs(repository, tag)}
    return sorted(known, key=known.__getitem__, reverse=True)


def write_site(repository: Path, folder: Path) -> list[str]:
    """Build the checkout and what is missing of the releases; return the versions, as the choice shows them.

    Raises
    ------
    subprocess.CalledProcessError
        If Sphinx cannot build one of them.
    """
    found = releases(repository)
    _build(repository, folder / LATEST)
    for tag in found:
        if not (folder / tag / "index.html").exists():
            with tempfile.TemporaryDirectory() as place:
                with tarfile.open(fileobj=io.BytesIO(_git(repository, "archive", tag))) as archive:
                    archive.extractall(place, filter="data")
                _build(Path(place), folder / tag)
    versions = [LATEST, *found]
    entries = [{"version": version, "url": f"{version}/"} for version in versions]
    (folder / "versions.json").write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")
    first = next((tag for tag in found if not Version(tag).is_prerelease), LATEST)
    (folder / "index.html").write_text(_START.format(url=f"{first}/", version=first), encoding="utf-8")
    (folder / ".nojekyll").touch()  # GitHub's pages leave out folders such as _static without it
    return versions


def _build(source: Path, target: Path) -> None:
    """Build one version's own pages by its own code; of an older one, warnings that are new do not matter."""
    words = [sys.executable, "-m", "sphinx", "-q", str(source / "docs"), str(target)]
    subprocess.run(words, check=True, env=os.environ | {"PYTHONPATH": str(source / "src")})


def _has_docs(repository: Path, tag: str) -> bool:
    return bool(_git(repository, "ls-tree", "--name-only", tag, "docs/conf.py").strip())


def _version(tag: str) -> Version | None:
    try:
        return Version(tag)
    except InvalidVersion:
        return None


def _git(repository: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *words], check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        print(f"{folder}: {', '.join(write_site(_ROOT, folder))}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"`{' '.join(map(str, error.cmd))}` ended with {error.returncode}.")
