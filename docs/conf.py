"""How Sphinx builds the site from these pages: ``make docs``."""

import re
import sys
from pathlib import Path
from typing import Any

import fedkin

project = "fedkin"
author = "the authors of fedkin"
copyright = author
release = version = fedkin.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_*"]
html_theme = "furo"
html_title = f"fedkin {release}"
html_static_path = ["_static"]
html_css_files = ["fedkin.css"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as on GitHub, where the same pages are read

nb_execution_mode = "off"  # their cells are tests; `make docs RUN=cache` shows what they print
suppress_warnings = ["myst-nb.lexer"]  # of magic in cells that did not run
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_excludepatterns = ["tutorials/three-machines.ipynb"]  # it has its outputs; a slow test runs it
nb_output_stderr = "warn"

default_role = "literal"  # docstrings name parameters in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say what is taken and returned, with shapes and ranges
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # their types are words, not cross-references

_OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|[gs]et_params")
"""What every estimator has from scikit-learn, whose pages say what it is for."""


def setup(app: Any) -> None:
    """Fill the lists of options and commands; leave scikit-learn's own functions out of the pages of estimators."""
    folder = Path(__file__).parent
    sys.path.insert(0, str(folder))
    from generated import filled

    # Before autodoc imports modules as type checkers do, after which their annotations cannot be read.
    names = {path.relative_to(folder).with_suffix("").as_posix(): path.read_text() for path in folder.rglob("*.md")}
    pages = {name: filled(name, text) for name, text in names.items()}
    app.connect("source-read", lambda app, page, source: source.__setitem__(0, pages.get(page, source[0])))
    app.connect("autodoc-skip-member", lambda app, what, name, *rest: bool(_OF_SCIKIT_LEARN.fullmatch(name)) or None)
