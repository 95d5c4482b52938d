#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pages of docs/ and the references in build/reference as a site in build/site, after a check of their spelling. MkDocs and
# codespell are installed into build/docs-venv.
#
#   build_site.sh DPMF     the program, whose help is one of the references
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/docs-venv
if ! [ -x $venv/bin/mkdocs ] || ! [ -x $venv/bin/codespell ]; then
    rm -rf $venv
    python3 -m venv $venv
    $venv/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs==1.6.*' 'codespell==2.4.*' >&2
fi
scripts/check_spelling.sh $venv/bin/codespell
python3 scripts/generate_reference.py "${1:-build/dpmf}" build/reference
if ! [ -e build/reference/python-api.md ]; then # `make docs` writes it; the package needs torch, Opacus and jax for that
    printf '# Python API\n\n`help(dpmf)` and `help(dpmf.torch)` print this reference. `make docs` builds this page.\n' >build/reference/python-api.md
fi
rm -rf build/site-pages
cp -r docs build/site-pages
cp build/reference/*.md build/site-pages
$venv/bin/mkdocs build --quiet --clean
echo "build/site/index.html: $(find build/site -name '*.html' | wc -l) pages (the search needs a server: python3 -m http.server -d build/site)"
