"""The page as one file: its modules, its styles and the data in it.

Owns how modules become one script. Invariants: a file needs nothing from anywhere, and a policy
in it lets nothing run but the one script that we put there, by its digest; data is text in a
block that is never run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping

import msgspec

from .static_files import INDEX, PageFile

__all__ = ["page_file"]

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LINKED = re.compile(r"<link [^>]*>\n|<script [^>]*></script>\n")
_MAIN = "main.js"


def page_file(files: Mapping[str, PageFile], data: object) -> str:
    """Return a page that shows `data`, whole in itself."""
    styles = "\n".join(file.data.decode() for name, file in files.items() if name.endswith(".css"))
    script = f"(() => {{\n'use strict';\n{_module_value(files, _MAIN, set())}}})();\n"
    # An end of the block inside of the data would end it for the browser, too.
    shown = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(styles)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = _LINKED.sub("", files[INDEX].data.decode())
    head = f'<meta http-equiv="content-security-policy" content="{policy}">\n'
    page = page.replace("<head>\n", f"<head>\n{head}", 1)
    page = page.replace("</head>", f"<style>{styles}</style>\n</head>", 1)
    block = f'<script type="application/json" id="data">{shown}</script>\n'
    return page.replace("</body>", f"{block}<script>{script}</script>\n</body>", 1)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _module_value(files: Mapping[str, PageFile], name: str, done: set[str]) -> str:
    """Return a module as a value of its exports, behind all that it imports."""
    done.add(name)
    source = files[name].data.decode().replace("</script", "<\\/script")
    before = ""
    for found in _IMPORT.finditer(source):
        if found[2] not in done:
            before += _module_value(files, found[2], done)
    source = _IMPORT.sub(_import_value, source)
    exports = ", ".join(found[2] for found in _EXPORT.finditer(source))
    source = _EXPORT.sub(r"\1 \2", source)
    return (
        f"{before}const {_variable(name)} = (() => {{\n{source}\nreturn {{ {exports} }};\n}})();\n"
    )


def _import_value(found: re.Match[str]) -> str:
    names = found[1].replace(" as ", ": ")
    return f"const {{{names}}} = {_variable(found[2])};\n"


def _variable(name: str) -> str:
    return f"${name.removesuffix('.js')}"
