"""
How Sphinx builds the site. `make docs` stages the pages and calls it: see tools/build_docs.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anarchon import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "anarchon"
author = "The anarchon contributors"
release = __version__
version = ".".join(__version__.split(".")[:2])

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["_files"]
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4
suppress_warnings: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 88
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
default_role = "code"

html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_title = f"anarchon {release}"
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
mermaid_d3_zoom = False
html_show_copyright = False
mermaid_fullscreen = False
mermaid_height = "auto"


_DIAGRAMS = "mermaid.min.js"


def setup(app: Sphinx) -> None:
    """
    Read docstrings before napoleon does, and look at a page's scripts when the others have named theirs.
    """
    app.connect("autodoc-process-docstring", keep_sentence, priority=400)
    app.connect("autodoc-process-signature", public_parameters)
    if (Path(app.srcdir) / "_static" / _DIAGRAMS).is_file():
        app.connect("html-page-context", serve_diagrams, priority=900)


def serve_diagrams(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """
    Draw diagrams with the script that lies beside the page.

    The extension imports the script as a module, which a browser refuses for a page that is opened as a file. As a
    plain script it is taken there too.
    """
    del page, template, tree
    for asset in list(context["script_files"]):
        body = asset.attributes.get("body") or ""
        line, _, rest = body.partition("\n")
        if line.startswith("import mermaid from "):
            context["script_files"].remove(asset)
            app.add_js_file(_DIAGRAMS, loading_method="defer")
            served = f"const mermaid = window.mermaid;\n{rest}"
            app.add_js_file(None, body=served, type="module")


_PRIVATE = re.compile(r", _\w+: [^,()]+(?=[,)])")


def public_parameters(  # noqa: PLR0917 - Sphinx calls it by position
    app: object,
    what: str,
    name: str,
    thing: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """
    Leave out parameters that a backend hands to its own copies.
    """
    del app, what, name, thing, options
    return signature and _PRIVATE.sub("", signature), returns


def keep_sentence(  # noqa: PLR0917 - Sphinx calls it by position
    app: object, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """
    Keep the first sentence of a property whole: before a colon, napoleon looks for a type.
    """
    del app, name, thing, options
    if what in {"attribute", "data", "property"} and lines:
        lines[0] = lines[0].replace(": ", " \N{EN DASH} ")
