"""YAML as ACL files have it: scalars are text, as they stand there.

A module of its own, imported when the first ACL file is read: PyYAML takes 15 ms to import, a
twentieth of what a broker needs to be ready, and few have accounts.
"""

from __future__ import annotations

from typing import Any

import yaml


class YamlError(ValueError):
    """A text is no YAML. The error quotes nothing of it, it may be a secret; it tells the line
    where that is known."""


class _Loader(yaml.SafeLoader):
    """Scalars stay text, only an empty one is ``None``."""

    yaml_implicit_resolvers: dict[Any, Any] = {  # noqa: RUF012 - overrides one of PyYAML
        first: [(tag, pattern) for tag, pattern in resolvers if tag == "tag:yaml.org,2002:null"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(text: bytes) -> Any:
    """Raises ``YamlError``."""
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise YamlError(f"no YAML{where}") from None


def format_yaml(content: Any) -> str:
    """In block style, keys in the order they have."""
    return str(
        yaml.dump(
            content,
            Dumper=yaml.SafeDumper,
            sort_keys=False,
            allow_unicode=True,
            default_flow_style=False,
        )
    )
