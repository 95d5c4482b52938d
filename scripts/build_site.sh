#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pages of docs/ as a site in build/site, after a check of their spelling. MkDocs and codespell are installed into build/docs-venv.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/docs-venv
if ! [ -x $venv/bin/mkdocs ] || ! [ -x $venv/bin/codespell ]; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs==1.6.*' 'codespell==2.4.*' >&2
fi
scripts/check_spelling.sh $venv/bin/codespell
$venv/bin/mkdocs build --quiet --clean
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages (the search needs a server: python3 -m http.server -d build/site)"
