# SPDX-License-Identifier: Apache-2.0
"""The README and the URLs of the package, for scikit-build-core, which asks `dynamic_metadata` for a field.

Links of python/README.md lead to other files of the repository. Shown on a package index they have to be absolute: below HOME, where
the repository can be read. While that is empty, the package has no URLs, and of a link the words alone are left.
"""

import pathlib
import posixpath
import re

#: Such as https://host/name/blob/main. Set it before you publish the package.
HOME = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"Documentation": "docs/python.md", "Changelog": "CHANGELOG.md", "Source": ""}
LINK = re.compile(r"\[([^]]*)\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


def absolute(text, home, folder="python"):
    """Markdown whose relative links, meant from `folder` of the repository, lead below `home`."""

    def link(match):
        words, target, anchor = match.groups()
        if not home:
            return words
        return "[%s](%s/%s%s)" % (words, home.rstrip("/"), posixpath.normpath(posixpath.join(folder, target)), anchor or "")

    return LINK.sub(link, text)


def urls(home):
    return {name: (home.rstrip("/") + "/" + page).rstrip("/") for name, page in PAGES.items()} if home else {}


def dynamic_metadata(field, settings, project=None):
    if field == "urls":
        return urls(HOME)
    readme = (ROOT / "python" / "README.md").read_text(encoding="utf-8")
    return {"text": absolute(readme, HOME), "content-type": "text/markdown"}
